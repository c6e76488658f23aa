//! Pages of lists. An iterator is the key of an item: the next page follows it, or with a leading minus precedes it.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use everhook_core::limits::{PAGE_DEFAULT, PAGE_MAX};
use everhook_core::violation::at;
use everhook_store::catalog::{Order, Slice};
use everhook_store::piece::Piece;
use everhook_store::query::Read;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::query::{self, Query};
use crate::routes::Answer;
use crate::state::Api;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// Maximum number of items. Default: 50.
    #[serde(deserialize_with = "query::one")]
    #[param(value_type = Option<u64>, minimum = 1, maximum = 250)]
    limit: Option<usize>,
    /// The `iterator` or `prevIterator` of another page. Default: the first page.
    #[serde(deserialize_with = "query::one")]
    iterator: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct OrderParams {
    /// The order of the list: `ascending` or `descending`.
    #[serde(deserialize_with = "query::one")]
    #[param(value_type = Option<String>, pattern = "^(a|de)scending$")]
    order: Option<Ordering>,
}

/// The order as a parameter of the query.
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

/// Extractor of the parameters of a list that has an order.
pub(crate) struct Listing {
    page: PageParams,
    order: OrderParams,
}

impl Listing {
    /// Returns the requested page, in the given order if the request names none.
    pub(crate) fn cursor<K: FromStr + Clone>(&self, order: Order) -> Result<Cursor<K>, ApiError> {
        Cursor::new(&self.page, self.order.order.map_or(order, |Ordering(order)| order))
    }

    /// Answers with the requested page of the rows that `query` reads, in the given order if the request names none.
    pub(crate) async fn answer<Q, K, R, O>(
        &self,
        api: &Api,
        order: Order,
        query: impl FnOnce(Slice<K>) -> Q,
        key: impl Fn(&R) -> K,
    ) -> Answer<Page<O>>
    where
        Q: Read<Answer = Vec<R>>,
        K: FromStr + Display + Clone,
        O: From<R>,
    {
        let cursor = self.cursor(order)?;
        let rows = api.read(query(cursor.slice())).await?;
        Ok(Json(cursor.page(rows, key, O::from)))
    }
}

impl FromRequestParts<Arc<Api>> for Listing {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Listing, ApiError> {
        let Query(page) = Query::from_request_parts(parts, api).await?;
        let Query(order) = Query::from_request_parts(parts, api).await?;
        Ok(Listing { page, order })
    }
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    /// The iterator of the next page.
    #[schema(required)]
    pub(crate) iterator: Option<String>,
    /// The iterator of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prev_iterator: Option<String>,
    /// Whether this is the last page in this direction. A page can have fewer items than `limit`, or none, and not be
    /// the last: the rows that a search reads and the bytes of a page are limited.
    pub(crate) done: bool,
}

/// The position, the direction and the size of the requested page.
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

/// The prefix of a forward iterator whose name begins with a minus, so that the minus is not read as a direction.
const FORWARD: char = '~';

impl<K: FromStr + Clone> Cursor<K> {
    /// Reads the parameters. `order` is the order in which the list is shown.
    pub(crate) fn new(params: &PageParams, order: Order) -> Result<Cursor<K>, ApiError> {
        let limit = limit(params.limit)?;
        let (after, direction) = match params.iterator.as_deref() {
            None | Some("") => (None, Direction::Forward),
            Some(text) => match text.strip_prefix('-') {
                Some(key) => (Some(parse(key)?), Direction::Backward),
                None => (Some(parse(text.strip_prefix(FORWARD).unwrap_or(text))?), Direction::Forward),
            },
        };
        Ok(Cursor { after, direction, order, limit })
    }

    /// Selects the last page of the list if the request has no iterator.
    #[must_use]
    pub(crate) fn or_last(mut self) -> Cursor<K> {
        if self.after.is_none() {
            self.direction = Direction::Backward;
        }
        self
    }

    /// Returns the rows to read: one more than the page has, which shows whether more rows follow.
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

    /// Builds the page from rows that were read with [`Cursor::slice`].
    pub(crate) fn page<R, T>(&self, rows: Vec<R>, key: impl Fn(&R) -> K, show: impl FnMut(R) -> T) -> Page<T>
    where
        K: Display,
    {
        self.page_of(Piece { rows, next: None }, key, show)
    }

    /// Builds the page from a piece that was read with [`Cursor::slice`]. A piece that stopped early can have fewer
    /// rows than requested, or none. Its iterator then continues at the stop, in the direction of the read.
    pub(crate) fn page_of<R, T>(&self, piece: Piece<R, K>, key: impl Fn(&R) -> K, show: impl FnMut(R) -> T) -> Page<T>
    where
        K: Display,
    {
        let Piece { mut rows, next } = piece;
        let is_cut = rows.len() > self.limit;
        rows.truncate(self.limit);
        let stopped = next.filter(|_| !is_cut);
        let done = !is_cut && stopped.is_none();
        if self.direction == Direction::Backward {
            rows.reverse();
        }
        let (first, last) = (rows.first().map(&key), rows.last().map(&key));
        let (first, last) = match self.direction {
            Direction::Forward => (first.or_else(|| stopped.clone()), stopped.or(last)),
            Direction::Backward => (stopped.clone().or(first), last.or(stopped)),
        };
        let (iterator, prev_iterator) = (last.map(|key| forward(&key)), first.map(|key| format!("-{key}")));
        Page { data: rows.into_iter().map(show).collect(), iterator, prev_iterator, done }
    }
}

impl<K: FromStr + Clone + Ord> Cursor<K> {
    /// Selects the rows of the page from a complete list.
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

/// Returns the number of items on a page.
pub(crate) fn limit(wanted: Option<usize>) -> Result<usize, ApiError> {
    match wanted.unwrap_or(PAGE_DEFAULT) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        _ => Err(ApiError::in_query(at("limit").breaks(format!("must be from 1 to {PAGE_MAX}")))),
    }
}

fn parse<K: FromStr>(text: &str) -> Result<K, ApiError> {
    text.parse().map_err(|_| ApiError::in_query(at("iterator").breaks("is not an iterator of this list")))
}

/// Returns the iterator of the page after `key`.
pub(crate) fn forward(key: &impl Display) -> String {
    let text = key.to_string();
    if text.starts_with('-') { format!("{FORWARD}{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a page of at most three rows: its rows, both iterators, and whether it is the last.
    #[track_caller]
    fn check(iterator: &str, rows: &[i64], next: Option<i64>, want: &str) {
        let params = PageParams { limit: Some(3), iterator: Some(iterator.to_owned()) };
        let cursor: Cursor<i64> = Cursor::new(&params, Order::Ascending).unwrap();
        let page = cursor.page_of(Piece { rows: rows.to_vec(), next }, |row| *row, |row| row);
        let (on, back) = (page.iterator.unwrap_or_default(), page.prev_iterator.unwrap_or_default());
        assert_eq!(format!("{:?} back {back:?} on {on:?} {}", page.data, page.done), want);
    }

    #[test]
    fn a_page_goes_on_after_its_last_row() {
        check("", &[1, 2], None, r#"[1, 2] back "-1" on "2" true"#);
        check("", &[1, 2, 3, 4], None, r#"[1, 2, 3] back "-1" on "3" false"#);
        check("-9", &[8, 7, 6, 5], None, r#"[6, 7, 8] back "-6" on "8" false"#);
        check("", &[], None, r#"[] back "" on "" true"#);
    }

    #[test]
    fn a_page_that_stopped_early_goes_on_where_it_stopped() {
        check("", &[1, 2], Some(20), r#"[1, 2] back "-1" on "20" false"#);
        check("", &[], Some(20), r#"[] back "-20" on "20" false"#);
        check("-90", &[80, 70], Some(20), r#"[70, 80] back "-20" on "80" false"#);
        check("-90", &[], Some(20), r#"[] back "-20" on "20" false"#);
        check("", &[1, 2, 3, 4], Some(20), r#"[1, 2, 3] back "-1" on "3" false"#);
    }
}
