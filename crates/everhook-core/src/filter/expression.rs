//! Filter expressions: a documented subset of CEL, compiled once.
//!
//! The subset has no unbounded work: texts, nodes and nesting are limited when an expression is compiled, loops cannot
//! contain loops, and each evaluation has a number of steps. The crates for CEL have neither such a limit nor a type
//! check.

use std::fmt;
use std::sync::Arc;

use crate::filter::evaluate::{self, EvaluationError, Scope};
use crate::filter::kinds;
use crate::filter::parse::{self, Node};
use crate::limits::FILTER_BYTES_MAX;

/// A compiled expression. Two expressions are equal if their texts are.
#[derive(Clone)]
pub struct Expression {
    text: String,
    /// None if this binary cannot compile a stored text, which a later version may have written.
    root: Option<Arc<Node>>,
}

/// Why a text is no filter expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}, at character {at}")]
pub struct BadExpression {
    /// The position in characters, from 1.
    pub at: usize,
    pub rule: String,
}

impl Expression {
    /// Compiles a text and checks the kinds of its values.
    pub fn compile(text: &str) -> Result<Expression, BadExpression> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(BadExpression { at: 1, rule: format!("must have at most {FILTER_BYTES_MAX} bytes") });
        }
        let bad = |(offset, rule): (usize, String)| {
            let before = text.get(..offset).unwrap_or(text);
            BadExpression { at: before.chars().count() + 1, rule }
        };
        let root = parse::parse(text).map_err(bad)?;
        kinds::check(&root).map_err(bad)?;
        Ok(Expression { text: text.to_owned(), root: Some(Arc::new(root)) })
    }

    /// Compiles a stored text. A text that cannot be compiled never matches.
    pub fn stored(text: String) -> Expression {
        Expression::compile(&text).unwrap_or(Expression { text, root: None })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the result, and the number of steps that it took.
    pub(super) fn evaluate(&self, scope: &Scope<'_>, steps_max: usize) -> (Result<bool, EvaluationError>, usize) {
        match &self.root {
            Some(root) => evaluate::evaluate(root, scope, steps_max),
            None => (Err(EvaluationError::NotCompiled), 0),
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}
