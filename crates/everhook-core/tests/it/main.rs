//! Tests of the core's public surface.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod fuzz;
