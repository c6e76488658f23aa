//! Checks the kinds of values in a filter expression, as far as they are known before a message is.

use crate::filter::parse::{Mistake, Node, Operator, Term};

/// The kind of a value. Members of the payload are unknown until a message is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unknown,
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

/// Checks an expression, whose result must be a truth value.
pub(super) fn check(root: &Node) -> Result<(), Mistake> {
    is_one_of(root, &[Kind::Bool], "must be true or false as a whole")
}

fn is_one_of(node: &Node, allowed: &[Kind], rule: &str) -> Result<(), Mistake> {
    allow(kind(node)?, node, allowed, rule)
}

fn allow(kind: Kind, node: &Node, allowed: &[Kind], rule: &str) -> Result<(), Mistake> {
    // A sum of unknown values is a number or a text, and nothing else.
    let is_sum = matches!(node.term, Term::Binary(Operator::Add, ..));
    let is_possible = !is_sum || allowed.iter().any(|kind| matches!(kind, Kind::Number | Kind::Text));
    let is_allowed = if kind == Kind::Unknown { is_possible } else { allowed.contains(&kind) };
    if is_allowed { Ok(()) } else { Err((node.at, rule.to_owned())) }
}

fn kind(node: &Node) -> Result<Kind, Mistake> {
    Ok(match &node.term {
        Term::Null => Kind::Null,
        Term::Bool(_) => Kind::Bool,
        Term::Int(_) | Term::Float(_) => Kind::Number,
        Term::Text(_) => Kind::Text,
        Term::List(items) => {
            items.iter().try_for_each(|item| kind(item).map(drop))?;
            Kind::List
        }
        Term::Variable(name) => match name.as_str() {
            "eventType" => Kind::Text,
            "channels" | "tags" => Kind::List,
            "headers" => Kind::Object,
            _ => Kind::Unknown,
        },
        Term::Member(of, _) => {
            is_one_of(of, &[Kind::Object], "has a member of a value that is no object")?;
            Kind::Unknown
        }
        Term::Has(of, _) => {
            is_one_of(of, &[Kind::Object], "has a member of a value that is no object")?;
            Kind::Bool
        }
        Term::Index(of, index) => {
            is_one_of(of, &[Kind::Object, Kind::List], "has an index of a value that is no object or list")?;
            is_one_of(index, &[Kind::Text, Kind::Number], "requires a text or a number as index")?;
            Kind::Unknown
        }
        Term::Not(inner) => {
            is_one_of(inner, &[Kind::Bool], "requires a truth value after '!'")?;
            Kind::Bool
        }
        Term::Negative(inner) => {
            is_one_of(inner, &[Kind::Number], "requires a number after '-'")?;
            Kind::Number
        }
        Term::Binary(operator, left, right) => binary(*operator, left, right)?,
        Term::Choice(condition, yes, no) => {
            is_one_of(condition, &[Kind::Bool], "requires a truth value before '?'")?;
            let (yes, no) = (kind(yes)?, kind(no)?);
            if yes == no { yes } else { Kind::Unknown }
        }
        Term::Size(of) => {
            let rule = "has the size of a value that is no text, list or object";
            is_one_of(of, &[Kind::Text, Kind::List, Kind::Object], rule)?;
            Kind::Number
        }
        Term::TextTest(_, of, part) => {
            is_one_of(of, &[Kind::Text], "requires a text before this method")?;
            is_one_of(part, &[Kind::Text], "requires a text as argument")?;
            Kind::Bool
        }
        Term::Matches(of, _) => {
            is_one_of(of, &[Kind::Text], "requires a text before this method")?;
            Kind::Bool
        }
        Term::Loop(_, of, body) => {
            is_one_of(of, &[Kind::List, Kind::Object], "has a loop over a value that is no list or object")?;
            is_one_of(body, &[Kind::Bool], "requires a truth value for each item")?;
            Kind::Bool
        }
    })
}

fn binary(operator: Operator, left: &Node, right: &Node) -> Result<Kind, Mistake> {
    // Each side is visited once: visiting it again on every level would take exponential time.
    let (left_kind, right_kind) = (kind(left)?, kind(right)?);
    let both = |allowed: &[Kind], rule: &str| {
        allow(left_kind, left, allowed, rule).and_then(|()| allow(right_kind, right, allowed, rule))
    };
    let is_known = left_kind != Kind::Unknown && right_kind != Kind::Unknown;
    match operator {
        Operator::And | Operator::Or => {
            both(&[Kind::Bool], "requires truth values beside && and ||")?;
            Ok(Kind::Bool)
        }
        Operator::Equal | Operator::NotEqual => {
            let has_null = left_kind == Kind::Null || right_kind == Kind::Null;
            if left_kind == right_kind || !is_known || has_null {
                return Ok(Kind::Bool);
            }
            Err((right.at, "compares values of different kinds".to_owned()))
        }
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            both(&[Kind::Number, Kind::Text], "compares values other than numbers and texts")?;
            if is_known && left_kind != right_kind {
                return Err((right.at, "compares a number with a text".to_owned()));
            }
            Ok(Kind::Bool)
        }
        Operator::In => {
            allow(right_kind, right, &[Kind::List, Kind::Object], "requires a list or an object after in")?;
            Ok(Kind::Bool)
        }
        Operator::Add => {
            both(&[Kind::Number, Kind::Text], "adds values other than numbers and texts")?;
            match (left_kind, right_kind) {
                (left, right) if left == right => Ok(left),
                _ if is_known => Err((right.at, "adds a number and a text".to_owned())),
                // The known side decides: a text and a number cannot be added.
                (Kind::Unknown, known) | (known, _) => Ok(known),
            }
        }
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => {
            both(&[Kind::Number], "calculates with a value that is no number")?;
            Ok(Kind::Number)
        }
    }
}
