"""The states of the viewer that the documentation shows, a module for each part."""
