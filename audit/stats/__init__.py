"""Pure functions on numpy arrays: distances, intervals, resampling and excess rates."""
