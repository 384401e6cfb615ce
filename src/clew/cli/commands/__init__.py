"""The commands `clew NOUN ...`, one file per noun: arguments, reading and changing. How they look is in `views`."""
