"""The store in a PostgreSQL database, which several daemons may share."""
