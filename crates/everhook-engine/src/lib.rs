//! The async shell around core, store and sender.
