//! Statements and rows, declared once for both SQL stores.
//!
//! [`statement!`](crate::statement) declares the name, parameters and answer of a statement. [`fields!`](crate::fields)
//! declares parameters that several statements share. [`columns!`](crate::columns) declares rows that a statement takes
//! as arrays, and [`row!`](crate::row) a row that it returns. Query files name parameters and rows. They are expanded
//! into the dialect of their store when a statement is first sent. This module contains no SQL itself.

pub mod answer;
pub mod cell;
mod expand;
pub mod param;
pub mod rows;
pub mod statement;
