//! Broken rules of a request, each with the path of the field that breaks it.
//!
//! Pure. A check names fields from its own top: `at("tags").index(2).breaks(rule)`. A caller whose value is a part of
//! something larger puts its own path before that. The API adds only whether the body, the query or the path is meant.

use std::borrow::Cow;
use std::fmt::{self, Display};

/// The path to a field. Checks on hot paths name a top field in passing, which allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    first: Cow<'static, str>,
    rest: Vec<Cow<'static, str>>,
}

/// A field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Names of members and positions in lists, such as `jobs`, `[2]`, `tags`.
    pub path: Vec<Cow<'static, str>>,
    /// The broken rule, as a predicate: "must not be empty".
    pub rule: String,
}

/// Begins a path.
pub fn at(name: impl Into<Cow<'static, str>>) -> Field {
    Field { first: name.into(), rest: Vec::new() }
}

impl Field {
    #[must_use]
    pub fn member(mut self, name: impl Into<Cow<'static, str>>) -> Field {
        self.rest.push(name.into());
        self
    }

    #[must_use]
    pub fn index(self, index: usize) -> Field {
        self.member(format!("[{index}]"))
    }

    pub fn breaks(self, rule: impl Display) -> Violation {
        Violation { path: self.into_path(), rule: rule.to_string() }
    }

    /// Takes the error of a result for the rule that this field breaks.
    pub fn check<T, E: Display>(self, result: Result<T, E>) -> Result<T, Violation> {
        result.map_err(|rule| self.breaks(rule))
    }

    fn into_path(self) -> Vec<Cow<'static, str>> {
        std::iter::once(self.first).chain(self.rest).collect()
    }
}

impl Violation {
    /// Puts the path of the value that was checked before the path in it.
    #[must_use]
    pub fn under(self, outer: Field) -> Violation {
        let mut path = outer.into_path();
        path.extend(self.path);
        Violation { path, rule: self.rule }
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, part) in self.path.iter().enumerate() {
            let dot = if position == 0 || part.starts_with('[') { "" } else { "." };
            write!(f, "{dot}{part}")?;
        }
        write!(f, " {}", self.rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_names_the_field_from_the_outside() {
        let inner = at("tags").index(1).breaks("must not be empty");
        assert_eq!(inner.to_string(), "tags[1] must not be empty");
        let outer = inner.under(at("jobs").index(3).member("job"));
        assert_eq!(outer.path, ["jobs", "[3]", "job", "tags", "[1]"]);
        assert_eq!(outer.to_string(), "jobs[3].job.tags[1] must not be empty");
        assert_eq!(at("a").check::<(), _>(Err("is wrong")).unwrap_err().to_string(), "a is wrong");
    }
}
