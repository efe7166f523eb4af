"""Models that leak and models that do not, what a direct attack finds in each, and what docaudit says of it."""
