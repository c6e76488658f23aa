//! The engine on the store in memory, with faults in between and a real receiver at the end.
#![expect(clippy::disallowed_methods, reason = "the tests' store has a clock, and their receivers are spawned")]

mod ahead;
mod changes;
mod doubt;
mod exhausted;
mod faulty;
mod fixture;
mod jobs;
mod ready;
mod refused;
mod roles;
mod sessions;
mod stop;
