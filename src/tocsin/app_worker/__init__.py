"""A worker of the fleet that runs the tasks of an app itself, straight from the database."""
