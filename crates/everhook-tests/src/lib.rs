//! The tests of the stores in `tests/stores` and of the engine in `tests/node`.
//!
//! These tests have their own crate because every test program links all crates below it. Two programs build faster
//! than one per crate. Tests of the whole server are in `crates/everhook/tests`, beside the binary that they start.
