"""The walls under attack: a catalogue of hostile submissions, graded like any other, and their evidence."""
