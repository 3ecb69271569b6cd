"""The parts of flambeau.serialization: zip files, pickles, storages, the older file format."""
