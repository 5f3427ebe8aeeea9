"""The beginnings of courses and exercises, and the templates that they are written from."""
