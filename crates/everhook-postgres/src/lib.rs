//! The shared store: one PostgreSQL, any number of nodes.
