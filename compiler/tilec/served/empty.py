"""Packages of TileLang that hold no names of their own."""
