"""Two scans compared, as data and in every format that `docaudit diff` writes."""
