"""Evidence for the constants that docaudit ships: false alarms and power by simulation."""
