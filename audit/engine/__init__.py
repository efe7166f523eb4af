"""Runs trials. Knows neither attacks nor targets."""
