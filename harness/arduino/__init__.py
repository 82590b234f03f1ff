"""Everything that goes through arduino-cli: sketches, builds, footprints, ports, uploads."""
