import sys

from tidepost.cli import main

sys.exit(main())
