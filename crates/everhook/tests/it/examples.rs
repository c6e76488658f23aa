//! The receivers of `examples/receivers` run, and do what `docs/receivers.md` says.
