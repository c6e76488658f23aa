//! Pages of lists. An iterator is the key of an item: plain to go on after it, with a leading minus to go back.

use std::fmt::Display;
use std::str::FromStr;

use everhook_core::limits::{PAGE_DEFAULT, PAGE_MAX};
use everhook_store::catalog::{Order, Slice};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::query;

/// Which page of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// Items at most.
    #[serde(deserialize_with = "query::one")]
    #[param(value_type = Option<u64>, minimum = 1, maximum = 250)]
    limit: Option<usize>,
    /// The `iterator` or `prevIterator` of another page.
    #[serde(deserialize_with = "query::one")]
    iterator: Option<String>,
}

/// In which order.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct OrderParams {
    /// `ascending` or `descending`.
    #[serde(deserialize_with = "query::one")]
    #[param(value_type = Option<String>, pattern = "^(a|de)scending$")]
    order: Option<Ordering>,
}

/// The order of a list, as it is written.
#[derive(Clone, Copy, Debug)]
struct Ordering(Order);

impl FromStr for Ordering {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Ordering, &'static str> {
        match text {
            "ascending" => Ok(Ordering(Order::Ascending)),
            "descending" => Ok(Ordering(Order::Descending)),
            _ => Err("must be ascending or descending"),
        }
    }
}

impl OrderParams {
    pub(crate) fn or(&self, default: Order) -> Order {
        self.order.map_or(default, |Ordering(order)| order)
    }
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    /// To go on after this page.
    #[schema(required)]
    pub(crate) iterator: Option<String>,
    /// To go back before this page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prev_iterator: Option<String>,
    /// Whether there is nothing more in this direction.
    pub(crate) done: bool,
}

/// Which rows make the page that is asked for.
#[derive(Debug)]
pub(crate) struct Cursor<K> {
    after: Option<K>,
    direction: Direction,
    order: Order,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A name may begin with a minus itself; this before it says that the minus is no direction.
const FORWARD: char = '~';

impl<K: FromStr + Clone> Cursor<K> {
    /// Reads what is asked for; `order` is how the list is shown.
    pub(crate) fn new(params: &PageParams, order: Order) -> Result<Cursor<K>, ApiError> {
        let limit = params.limit.unwrap_or(PAGE_DEFAULT);
        if limit == 0 || limit > PAGE_MAX {
            return Err(ApiError::invalid(["query", "limit"], format!("must be from 1 to {PAGE_MAX}")));
        }
        let (after, direction) = match params.iterator.as_deref() {
            None | Some("") => (None, Direction::Forward),
            Some(text) => match text.strip_prefix('-') {
                Some(key) => (Some(parse(key)?), Direction::Backward),
                None => (Some(parse(text.strip_prefix(FORWARD).unwrap_or(text))?), Direction::Forward),
            },
        };
        Ok(Cursor { after, direction, order, limit })
    }

    /// Where nothing is asked for, the page at the far end of the list.
    #[must_use]
    pub(crate) fn or_last(mut self) -> Cursor<K> {
        if self.after.is_none() {
            self.direction = Direction::Backward;
        }
        self
    }

    /// The rows to read: one more than the page has, to know whether there are more.
    pub(crate) fn slice(&self) -> Slice<K> {
        Slice { after: self.after.clone(), order: self.read_order(), limit: self.limit + 1 }
    }

    fn read_order(&self) -> Order {
        match (self.direction, self.order) {
            (Direction::Forward, order) => order,
            (Direction::Backward, Order::Ascending) => Order::Descending,
            (Direction::Backward, Order::Descending) => Order::Ascending,
        }
    }

    /// The page of rows that were read by [`Cursor::slice`].
    pub(crate) fn page<R, T>(&self, mut rows: Vec<R>, key: impl Fn(&R) -> K, show: impl FnMut(R) -> T) -> Page<T>
    where
        K: Display,
    {
        let done = rows.len() <= self.limit;
        rows.truncate(self.limit);
        if self.direction == Direction::Backward {
            rows.reverse();
        }
        let iterator = rows.last().map(|row| forward(&key(row)));
        let prev_iterator = rows.first().map(|row| format!("-{}", key(row)));
        Page { data: rows.into_iter().map(show).collect(), iterator, prev_iterator, done }
    }
}

impl<K: FromStr + Clone + Ord> Cursor<K> {
    /// The rows to show of a list that is small enough to be read whole.
    pub(crate) fn cut<R>(&self, mut rows: Vec<R>, key: impl Fn(&R) -> K) -> Vec<R> {
        rows.sort_by_key(&key);
        let slice = self.slice();
        if slice.order == Order::Descending {
            rows.reverse();
        }
        if let Some(after) = &slice.after {
            rows.retain(|row| match slice.order {
                Order::Ascending => key(row) > *after,
                Order::Descending => key(row) < *after,
            });
        }
        rows.truncate(slice.limit);
        rows
    }
}

fn parse<K: FromStr>(text: &str) -> Result<K, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(["query", "iterator"], "is not an iterator of this list"))
}

/// The iterator that goes on after `key`.
pub(crate) fn forward(key: &impl Display) -> String {
    let text = key.to_string();
    if text.starts_with('-') { format!("{FORWARD}{text}") } else { text }
}
