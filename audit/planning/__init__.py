"""What a data set can resolve, before any model runs: `docaudit plan`."""
