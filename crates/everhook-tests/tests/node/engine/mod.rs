//! The engine on the in-memory store, with injected faults and a real receiver.
#![expect(clippy::disallowed_methods, reason = "the tests' store has a clock, and their receivers are spawned")]

mod ahead;
mod changes;
mod coalesced;
mod doubt;
mod egress;
mod exhausted;
mod faulty;
mod fixture;
mod jobs;
mod policy;
mod ready;
mod refused;
mod roles;
mod sessions;
mod stop;
