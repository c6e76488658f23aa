//! Statements and rows, declared once for both SQL stores.
//!
//! [`statement!`](crate::statement) declares a statement's name, parameters and answer; [`fields!`](crate::fields)
//! those that several have; [`columns!`](crate::columns) declares rows that a statement takes as arrays;
//! [`row!`](crate::row) declares a row that it returns. Query files name parameters and rows, and are expanded into the
//! dialect of their store when a statement is first sent. Holds no SQL itself.

pub mod answer;
pub mod cell;
mod expand;
pub mod param;
pub mod rows;
pub mod statement;
