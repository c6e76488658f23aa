//! Jobs: run by handlers, pushed, leased by remote workers, started by schedules.

mod ahead;
mod announced;
mod background;
mod handled;
mod pushed;
mod remote;
mod sampled;
mod scheduled;
mod shared;
pub(crate) mod stage;
mod taken_over;
