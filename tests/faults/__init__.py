"""Subjects that do harm, and what runs them."""
