//! Statements and rows, declared once for both SQL stores.
//!
//! [`statement!`](crate::statement) declares the name, parameters and answer of a statement. [`fields!`](crate::fields)
//! declares parameters that several statements share. [`columns!`](crate::columns) declares rows that a statement takes
//! as arrays, and [`row!`](crate::row) a row that it returns. Query files name parameters and rows. They are expanded
//! into the dialect of their store when a statement is first sent. [`shared`] has the statements that are equal in both
//! stores; all others are in the stores.

pub mod answer;
#[macro_use]
pub mod cell;
mod expand;
#[macro_use]
pub mod param;

mod codes;
pub mod rows;
pub mod shared;
pub mod statement;
