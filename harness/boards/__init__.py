"""Boards as data, and the Arduino platform's boards.txt that is generated from them."""
