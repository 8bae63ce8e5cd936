"""``python -m greatseal``."""

from greatseal.cli import main

if __name__ == "__main__":
    main()
