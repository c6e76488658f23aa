//! The expansion of query files according to their declarations.

use everhook_core::id::{EnvironmentId, LaneId};
use everhook_core::task::Task;

use everhook_store::catalog::Order;
use everhook_store::sql::answer::FromRows;
use everhook_store::sql::param::{Bind, Kind, Shape, StoreClock};
use everhook_store::sql::statement::{Dialect, Text};

everhook_store::columns! { LaneKeys of LaneKey { environment: EnvironmentId, id: LaneId } }

fn text(dialect: Dialect, file: &'static str) -> Text {
    let fields = [("lanes", <LaneKeys as Bind>::SHAPE), ("order", Shape::Order), ("limit", Shape::One(Kind::Int8))];
    Text::new(dialect, "test", file, &fields, <Vec<Task> as FromRows>::parts())
}

#[test]
fn a_file_is_expanded_into_numbers_and_columns() {
    let file = "-- Not :this {or that}.\nfrom unnest(:lanes, n) where ':x' = n::text and :lanes.id is not null \
                order by n :order limit :limit";
    let text = text(Dialect::Postgres, file);
    let ascending = "-- Not :this {or that}.\nfrom unnest($1::int[], $2::bytea[]) with ordinality as lanes \
                     (environment, id, n) where ':x' = n::text and $2::bytea[] is not null order by n asc limit $3";
    assert_eq!(text.sql(Order::Ascending), ascending);
    assert_eq!(text.sql(Order::Descending), ascending.replace(" asc ", " desc "));
    assert_eq!(text.params().len(), 3);
}

#[test]
fn a_row_is_expanded_into_its_columns() {
    let file = "{t: Task; lane = null} {Task} :lanes.id :order :limit";
    let columns = "environment, subject, id, lane, kind, \"trigger\", priority, due_at, tries, crashes, epoch, cancel, \
                   batch, order_key";
    let qualified: Vec<String> = columns.split(", ").map(|column| format!("t.{column}")).collect();
    let qualified = qualified.join(", ").replace("t.lane", "null");
    let expanded = text(Dialect::Sqlite, file).sql(Order::Ascending).to_owned();
    assert_eq!(expanded, format!("{qualified} {columns} ?2::bytea[] asc ?3"));
}

#[test]
fn a_shared_file_is_expanded_into_both_dialects() {
    let file = "select now.at::bigint, ':everhook.x' from everhook.lane where id = any (array[other.id]) \
                and feed <> ''::bytea and ready_at < :now limit :limit\nfor update skip locked;";
    let expanded = |dialect| {
        let fields = [("now", <StoreClock as Bind>::SHAPE), ("limit", Shape::One(Kind::Int8))];
        let text = Text::new(dialect, "test", file, &fields, Vec::new());
        (text.sql(Order::Ascending).to_owned(), text.params().len())
    };
    let postgres = file.replace(":now", "everhook.now_us()").replace(":limit", "$1");
    assert_eq!(expanded(Dialect::Postgres), (postgres, 1));
    let sqlite =
        "select now.at, ':everhook.x' from lane where id = other.id and feed <> x'' and ready_at < ?1 limit ?2\n;";
    assert_eq!(expanded(Dialect::Sqlite), (sqlite.to_owned(), 2));
}

#[test]
#[should_panic(expected = "query test: no :limit")]
fn a_field_that_a_file_does_not_use_is_a_mistake() {
    text(Dialect::Postgres, ":lanes.id :order");
}

#[test]
#[should_panic(expected = "query test: :lane is not declared")]
fn a_parameter_that_is_not_declared_is_a_mistake() {
    text(Dialect::Postgres, ":lane");
}
