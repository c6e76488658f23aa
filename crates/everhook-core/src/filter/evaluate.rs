//! Evaluates filter expressions, within a number of steps.
//!
//! Every part, every item of a list and every few bytes of a text cost one step. An error makes the whole expression
//! fail, except beside `&&` and `||`, where the other side may decide alone.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::filter::parse::{Loop, Node, Operator, Term, TextTest};
use crate::name::Name;

/// Bytes of text that one step reads or copies.
const BYTES_PER_STEP: usize = 64;

/// The variables of an expression.
pub(super) struct Scope<'a> {
    pub(super) payload: &'a Value,
    pub(super) event_type: &'a str,
    pub(super) event_id: Option<&'a str>,
    pub(super) channels: &'a [Name],
    pub(super) tags: &'a [Name],
    /// The endpoint's own headers. The content type and the event type are known, too.
    pub(super) headers: &'a BTreeMap<String, String>,
    pub(super) content_type: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EvaluationError {
    #[error("the member {0:?} does not exist")]
    Missing(String),
    #[error("the list has no item {0}")]
    NoItem(i64),
    #[error("{0}")]
    Kind(&'static str),
    #[error("the result of a calculation is too large")]
    Overflow,
    #[error("a division by zero")]
    DivisionByZero,
    #[error("it takes too many steps")]
    Steps,
    #[error("this version cannot read it")]
    NotCompiled,
}

#[derive(Clone, Debug)]
enum Item<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Item<'a>>),
    /// A list or an object of the payload.
    Json(&'a Value),
    Headers,
}

type Evaluated<T> = Result<T, EvaluationError>;

/// Returns the result, and the number of steps that it took.
pub(super) fn evaluate(root: &Node, scope: &Scope<'_>, steps_max: usize) -> (Evaluated<bool>, usize) {
    let mut run = Run { scope, bound: None, left: steps_max };
    let result = run.truth(root);
    (result, steps_max - run.left)
}

struct Run<'a, 's> {
    scope: &'s Scope<'a>,
    /// The value of the variable of the enclosing loop.
    bound: Option<Item<'a>>,
    left: usize,
}

impl<'a> Run<'a, '_> {
    fn spend(&mut self, steps: usize) -> Evaluated<()> {
        match self.left.checked_sub(steps) {
            Some(left) => self.left = left,
            None => {
                self.left = 0;
                return Err(EvaluationError::Steps);
            }
        }
        Ok(())
    }

    fn spend_text(&mut self, text: &str) -> Evaluated<()> {
        self.spend(text.len() / BYTES_PER_STEP)
    }

    fn truth(&mut self, node: &Node) -> Evaluated<bool> {
        match self.item(node)? {
            Item::Bool(value) => Ok(value),
            _ => Err(EvaluationError::Kind("a truth value is required, and there is another value")),
        }
    }

    fn text(&mut self, node: &Node) -> Evaluated<Cow<'a, str>> {
        match self.item(node)? {
            Item::Text(text) => Ok(text),
            _ => Err(EvaluationError::Kind("a text is required, and there is another value")),
        }
    }

    fn item(&mut self, node: &Node) -> Evaluated<Item<'a>> {
        self.spend(1)?;
        Ok(match &node.term {
            Term::Null => Item::Null,
            Term::Bool(value) => Item::Bool(*value),
            Term::Int(value) => Item::Int(*value),
            Term::Float(value) => Item::Float(*value),
            Term::Text(text) => {
                self.spend_text(text)?;
                Item::Text(Cow::Owned(text.clone()))
            }
            Term::List(items) => Item::List(items.iter().map(|item| self.item(item)).collect::<Evaluated<_>>()?),
            Term::Variable(name) => self.variable(name)?,
            Term::Member(of, name) => {
                let of = self.item(of)?;
                self.member(&of, name)?.ok_or_else(|| EvaluationError::Missing(name.clone()))?
            }
            Term::Has(of, name) => {
                let of = self.item(of)?;
                Item::Bool(self.member(&of, name)?.is_some())
            }
            Term::Index(of, index) => self.index(of, index)?,
            Term::Not(inner) => Item::Bool(!self.truth(inner)?),
            Term::Negative(inner) => match self.item(inner)? {
                Item::Int(value) => Item::Int(value.checked_neg().ok_or(EvaluationError::Overflow)?),
                Item::Float(value) => Item::Float(-value),
                _ => return Err(NO_NUMBER),
            },
            Term::Binary(Operator::And, left, right) => Item::Bool(self.joined(left, right, false)?),
            Term::Binary(Operator::Or, left, right) => Item::Bool(self.joined(left, right, true)?),
            Term::Binary(operator, left, right) => {
                let (left, right) = (self.item(left)?, self.item(right)?);
                self.binary(*operator, left, right)?
            }
            Term::Choice(condition, yes, no) => {
                if self.truth(condition)? {
                    self.item(yes)?
                } else {
                    self.item(no)?
                }
            }
            Term::Size(of) => {
                let of = self.item(of)?;
                Item::Int(self.size(&of)?)
            }
            Term::TextTest(test, of, part) => {
                let (of, part) = (self.text(of)?, self.text(part)?);
                self.spend_text(&of)?;
                Item::Bool(match test {
                    TextTest::StartsWith => of.starts_with(&*part),
                    TextTest::EndsWith => of.ends_with(&*part),
                    TextTest::Contains => of.contains(&*part),
                })
            }
            Term::Matches(of, regex) => {
                let of = self.text(of)?;
                // A pattern reads a text several times more slowly than the other methods.
                self.spend(of.len() / 8)?;
                Item::Bool(regex.is_match(&of))
            }
            Term::Loop(kind, of, body) => Item::Bool(self.each(*kind, of, body)?),
        })
    }

    fn variable(&mut self, name: &str) -> Evaluated<Item<'a>> {
        let names = |list: &'a [Name]| list.iter().map(|name| Item::Text(Cow::Borrowed(name.as_str()))).collect();
        Ok(match name {
            "payload" => of_json(self.scope.payload),
            "eventType" => Item::Text(Cow::Borrowed(self.scope.event_type)),
            "eventId" => self.scope.event_id.map_or(Item::Null, |id| Item::Text(Cow::Borrowed(id))),
            "channels" => Item::List(names(self.scope.channels)),
            "tags" => Item::List(names(self.scope.tags)),
            "headers" => Item::Headers,
            // The parser accepts no other names than these and the variable of the loop.
            _ => self.bound.clone().ok_or_else(|| EvaluationError::Missing(name.to_owned()))?,
        })
    }

    fn member(&mut self, of: &Item<'a>, name: &str) -> Evaluated<Option<Item<'a>>> {
        match of {
            Item::Json(Value::Object(members)) => Ok(members.get(name).map(of_json)),
            Item::Headers => {
                self.spend(self.scope.headers.len())?;
                let same = |(known, _): &(&String, &String)| known.eq_ignore_ascii_case(name);
                let own = self.scope.headers.iter().find(same).map(|(_, value)| value.as_str());
                let value = match name.to_ascii_lowercase().as_str() {
                    "content-type" => Some(self.scope.content_type),
                    "everhook-event-type" => Some(self.scope.event_type),
                    _ => own,
                };
                Ok(value.map(|value| Item::Text(Cow::Borrowed(value))))
            }
            _ => Err(EvaluationError::Kind("an object is required, and there is another value")),
        }
    }

    fn index(&mut self, of: &Node, index: &Node) -> Evaluated<Item<'a>> {
        let (of, index) = (self.item(of)?, self.item(index)?);
        match (of, index) {
            (Item::Json(Value::Array(items)), Item::Int(at)) => {
                let found = usize::try_from(at).ok().and_then(|at| items.get(at));
                found.map(of_json).ok_or(EvaluationError::NoItem(at))
            }
            (Item::List(items), Item::Int(at)) => {
                let found = usize::try_from(at).ok().and_then(|at| items.get(at).cloned());
                found.ok_or(EvaluationError::NoItem(at))
            }
            (of @ (Item::Json(Value::Object(_)) | Item::Headers), Item::Text(name)) => {
                self.member(&of, &name)?.ok_or_else(|| EvaluationError::Missing(name.into_owned()))
            }
            _ => Err(EvaluationError::Kind("an index is a number in a list, or a text in an object")),
        }
    }

    /// Evaluates `&&` and `||`: one side that equals `decisive` decides, even if the other side fails.
    fn joined(&mut self, left: &Node, right: &Node, decisive: bool) -> Evaluated<bool> {
        let left = self.truth(left);
        if left == Ok(decisive) || left == Err(EvaluationError::Steps) {
            return left;
        }
        match self.truth(right) {
            Ok(right) if right == decisive => Ok(decisive),
            Err(error) => left.and(Err(error)),
            Ok(_) => left,
        }
    }

    fn each(&mut self, kind: Loop, of: &Node, body: &Node) -> Evaluated<bool> {
        let items: Vec<Item<'a>> = match self.item(of)? {
            Item::List(items) => items,
            Item::Json(Value::Array(items)) => {
                self.spend(items.len())?;
                items.iter().map(of_json).collect()
            }
            Item::Json(Value::Object(members)) => {
                self.spend(members.len())?;
                members.keys().map(|name| Item::Text(Cow::Borrowed(name.as_str()))).collect()
            }
            _ => return Err(EvaluationError::Kind("a list or an object is required, and there is another value")),
        };
        let (mut found, mut failure) = (0_usize, None);
        for item in items {
            self.bound = Some(item);
            match (self.truth(body), kind) {
                (Err(EvaluationError::Steps), _) => return Err(EvaluationError::Steps),
                (Ok(true), Loop::Exists) => return Ok(true),
                (Ok(false), Loop::All) => return Ok(false),
                (Ok(holds), _) => found += usize::from(holds),
                (Err(error), _) => failure = failure.or(Some(error)),
            }
        }
        self.bound = None;
        match (failure, kind) {
            (Some(error), _) => Err(error),
            (None, Loop::Exists) => Ok(false),
            (None, Loop::All) => Ok(true),
            (None, Loop::ExistsOne) => Ok(found == 1),
        }
    }

    fn size(&mut self, of: &Item<'a>) -> Evaluated<i64> {
        let size = match of {
            Item::Text(text) => {
                self.spend_text(text)?;
                text.chars().count()
            }
            Item::List(items) => items.len(),
            Item::Json(Value::Array(items)) => items.len(),
            Item::Json(Value::Object(members)) => members.len(),
            _ => return Err(EvaluationError::Kind("a text, a list or an object has a size, and no other value")),
        };
        i64::try_from(size).map_err(|_| EvaluationError::Overflow)
    }

    fn binary(&mut self, operator: Operator, left: Item<'a>, right: Item<'a>) -> Evaluated<Item<'a>> {
        Ok(match operator {
            Operator::Equal => Item::Bool(self.equal(&left, &right)?),
            Operator::NotEqual => Item::Bool(!self.equal(&left, &right)?),
            Operator::Less => Item::Bool(self.order(&left, &right)? == Some(Ordering::Less)),
            Operator::Greater => Item::Bool(self.order(&left, &right)? == Some(Ordering::Greater)),
            Operator::LessEqual => {
                Item::Bool(matches!(self.order(&left, &right)?, Some(Ordering::Less | Ordering::Equal)))
            }
            Operator::GreaterEqual => {
                Item::Bool(matches!(self.order(&left, &right)?, Some(Ordering::Greater | Ordering::Equal)))
            }
            Operator::In => Item::Bool(self.is_in(&left, &right)?),
            Operator::Add => match (left, right) {
                (Item::Text(left), Item::Text(right)) => {
                    self.spend((left.len() + right.len()) / BYTES_PER_STEP)?;
                    Item::Text(left + right)
                }
                (left, right) => calculate(operator, &left, &right)?,
            },
            _ => calculate(operator, &left, &right)?,
        })
    }

    fn equal(&mut self, left: &Item<'a>, right: &Item<'a>) -> Evaluated<bool> {
        self.spend(1)?;
        Ok(match (left, right) {
            (Item::Null, Item::Null) => true,
            (Item::Bool(left), Item::Bool(right)) => left == right,
            (Item::Text(left), Item::Text(right)) => {
                self.spend_text(left)?;
                left == right
            }
            (Item::Int(_) | Item::Float(_), Item::Int(_) | Item::Float(_)) => {
                compare_numbers(left, right) == Some(Ordering::Equal)
            }
            (Item::Json(Value::Object(left)), Item::Json(Value::Object(right))) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (name, value) in left {
                    let Some(other) = right.get(name) else { return Ok(false) };
                    if !self.equal(&of_json(value), &of_json(other))? {
                        return Ok(false);
                    }
                }
                true
            }
            (Item::List(_) | Item::Json(Value::Array(_)), Item::List(_) | Item::Json(Value::Array(_))) => {
                let (left, right) = (items(left), items(right));
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (left, right) in left.iter().zip(&right) {
                    if !self.equal(left, right)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => false,
        })
    }

    fn order(&mut self, left: &Item<'a>, right: &Item<'a>) -> Evaluated<Option<Ordering>> {
        match (left, right) {
            (Item::Text(left), Item::Text(right)) => {
                self.spend_text(left)?;
                Ok(Some(left.cmp(right)))
            }
            (Item::Int(_) | Item::Float(_), Item::Int(_) | Item::Float(_)) => Ok(compare_numbers(left, right)),
            _ => Err(EvaluationError::Kind("two numbers or two texts can be compared, and no other values")),
        }
    }

    fn is_in(&mut self, item: &Item<'a>, of: &Item<'a>) -> Evaluated<bool> {
        match (of, item) {
            (Item::List(_) | Item::Json(Value::Array(_)), _) => {
                let all = items(of);
                self.spend(all.len())?;
                for other in &all {
                    if self.equal(item, other)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            (Item::Json(Value::Object(_)) | Item::Headers, Item::Text(name)) => Ok(self.member(of, name)?.is_some()),
            (Item::Json(Value::Object(_)) | Item::Headers, _) => Ok(false),
            _ => Err(EvaluationError::Kind("a list or an object is required after in, and there is another value")),
        }
    }
}

const NO_NUMBER: EvaluationError = EvaluationError::Kind("a number is required, and there is another value");

fn items<'a>(of: &Item<'a>) -> Vec<Item<'a>> {
    match of {
        Item::List(items) => items.clone(),
        Item::Json(Value::Array(items)) => items.iter().map(of_json).collect(),
        _ => Vec::new(),
    }
}

fn of_json(value: &Value) -> Item<'_> {
    match value {
        Value::Null => Item::Null,
        Value::Bool(value) => Item::Bool(*value),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Item::Float(number.as_f64().unwrap_or(f64::NAN)), Item::Int)
        }
        Value::String(text) => Item::Text(Cow::Borrowed(text)),
        Value::Array(_) | Value::Object(_) => Item::Json(value),
    }
}

fn compare_numbers(left: &Item<'_>, right: &Item<'_>) -> Option<Ordering> {
    match (left, right) {
        (Item::Int(left), Item::Int(right)) => Some(left.cmp(right)),
        _ => float(left)?.partial_cmp(&float(right)?),
    }
}

fn float(item: &Item<'_>) -> Option<f64> {
    match item {
        Item::Int(value) => Some(*value as f64),
        Item::Float(value) => Some(*value),
        _ => None,
    }
}

/// Calculates with integers, or with floats if one of the numbers is a float.
fn calculate<'a>(operator: Operator, left: &Item<'_>, right: &Item<'_>) -> Evaluated<Item<'a>> {
    if let (Item::Int(left), Item::Int(right)) = (left, right) {
        let result = match operator {
            Operator::Add => left.checked_add(*right),
            Operator::Subtract => left.checked_sub(*right),
            Operator::Multiply => left.checked_mul(*right),
            _ if *right == 0 => return Err(EvaluationError::DivisionByZero),
            Operator::Divide => left.checked_div(*right),
            _ => left.checked_rem(*right),
        };
        return result.map(Item::Int).ok_or(EvaluationError::Overflow);
    }
    let (left, right) = (float(left).ok_or(NO_NUMBER)?, float(right).ok_or(NO_NUMBER)?);
    Ok(Item::Float(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        _ => return Err(EvaluationError::Kind("a remainder requires two whole numbers")),
    }))
}
