"""Audits that other libraries' programs ask for."""
