"""Executors: who runs which operator."""
