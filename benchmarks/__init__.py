"""Speed as ratios in one run on one machine; not unit tests.  See README.md beside this file."""
