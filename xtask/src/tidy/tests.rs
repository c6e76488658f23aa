use super::*;

/// Runs one rule on a tree of `(path, text)` and compares the places it finds.
#[track_caller]
fn check(rule: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)], want: &[&str]) {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let findings = rule(&Tree { files });
    let places: Vec<_> = findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect();
    assert_eq!(places, want);
}

#[test]
fn a_query_needs_a_twin_in_the_other_store() {
    let sqlite = "crates/everhook-sqlite/queries/lease_tasks.sql";
    check(sql::same_queries, &[(sqlite, "-- Lease.")], &["crates/everhook-sqlite/queries/lease_tasks.sql:1"]);
    check(sql::same_queries, &[(sqlite, ""), ("crates/everhook-postgres/queries/lease_tasks.sql", "")], &[]);
    check(sql::same_queries, &[(sqlite, "-- Lease.\n-- No twin: the other store needs none.")], &[]);
    check(sql::same_queries, &[], &[]);
    let shared = "crates/everhook-store/queries/lease_tasks.sql";
    check(sql::same_queries, &[(shared, "-- Lease.")], &[]);
    let both = [(sqlite, "-- Lease.\n-- No twin: the other store needs none."), (shared, "-- Lease.")];
    check(sql::same_queries, &both, &["crates/everhook-store/queries/lease_tasks.sql:1"]);
}

#[test]
fn a_sql_file_begins_with_a_comment() {
    let path = "crates/everhook-postgres/migrations/0001.sql";
    check(sql::opening_comments, &[(path, "-- The first tables.\ncreate table …")], &[]);
    check(sql::opening_comments, &[(path, "create table …")], &["crates/everhook-postgres/migrations/0001.sql:1"]);
}

#[test]
fn a_statement_outside_the_stores_is_found() {
    let statement = r#"let query = "select id from task";"#;
    check(sql::only_in_stores, &[("crates/everhook-api/src/a.rs", statement)], &["crates/everhook-api/src/a.rs:1"]);
    check(sql::only_in_stores, &[("crates/everhook-sqlite/src/a.rs", statement)], &[]);
    check(sql::only_in_stores, &[("crates/everhook-api/src/a/tests.rs", statement)], &[]);
    let longer = "let query = \"update task\n    set epoch = epoch + 1\";";
    check(sql::only_in_stores, &[("crates/everhook-api/src/a.rs", longer)], &["crates/everhook-api/src/a.rs:1"]);
    check(sql::only_in_stores, &[("crates/everhook-api/src/a.rs", r#"let text = "update the endpoint";"#)], &[]);
}

#[test]
fn the_core_takes_time_and_chance_as_arguments() {
    let manifest = "[dependencies]\nserde.workspace = true\ntokio = \"1\"\n[dev-dependencies]\ngetrandom = \"1\"\n";
    check(
        boundaries::core_is_pure,
        &[
            ("crates/everhook-core/Cargo.toml", manifest),
            ("crates/everhook-core/src/a.rs", "// SystemTime\nSystemTime"),
        ],
        &["crates/everhook-core/Cargo.toml:3", "crates/everhook-core/src/a.rs:2"],
    );
}

#[test]
fn only_the_sender_may_connect() {
    let code = "//! Docs.\nlet stream = TcpStream::connect(address).await?;\n";
    let tests = "//! Docs.\n#[cfg(test)]\nmod tests {\n    TcpStream::connect(address);\n}\n";
    check(boundaries::only_sender_connects, &[("crates/everhook-sender/src/a.rs", code)], &[]);
    check(boundaries::only_sender_connects, &[("crates/everhook-api/src/a.rs", tests)], &[]);
    let path = "crates/everhook-api/src/a.rs";
    check(boundaries::only_sender_connects, &[(path, code)], &["crates/everhook-api/src/a.rs:2"]);
}

#[test]
fn a_source_file_begins_with_its_purpose() {
    let files = [("crates/a/src/lib.rs", "use b;"), ("crates/a/src/c.rs", "//! C."), ("crates/a/src/c/tests.rs", "")];
    check(text::module_docs, &files, &["crates/a/src/lib.rs:1"]);
}

#[test]
fn paths_and_package_sources_of_one_machine_are_found() {
    let path = concat!("see /ho", "me/ann/notes");
    let url = concat!("see https://example.com/ho", "me/ann");
    check(text::machine_independent, &[("a.md", path), ("b.md", url)], &["a.md:1"]);
    let locked = "source = \"registry+https://mirror.example/index\"";
    check(text::machine_independent, &[("Cargo.lock", locked)], &["Cargo.lock:1"]);
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    check(text::machine_independent, &[("Cargo.lock", public)], &[]);
}

#[test]
fn a_link_leads_to_a_file_or_a_folder() {
    let guide = "[a](../README.md#start) [b](adr/) [`c`](gone.md) `[d](code.md)` [e](https://example.com)\n\
                 ```\n[f](gone.md)\n```\n[g](../../outside.md)\n";
    let files = [("README.md", ""), ("docs/adr/0001-a.md", ""), ("docs/guide.md", guide)];
    check(text::links_resolve, &files, &["docs/guide.md:1", "docs/guide.md:5"]);
}

#[test]
fn the_index_has_every_page() {
    let files =
        [("docs/README.md", "| [A](a.md#top) | x |"), ("docs/a.md", ""), ("docs/b.md", ""), ("docs/adr/c.md", "")];
    check(text::pages_are_indexed, &files, &["docs/b.md:1"]);
}

#[test]
fn unfinished_work_names_an_issue() {
    let word = concat!("TO", "DO");
    check(text::unfinished_work, &[("a.rs", &format!("// {word}: later"))], &["a.rs:1"]);
    check(text::unfinished_work, &[("a.rs", &format!("// {word}(#12): later")), ("b.rs", "MASTODONS")], &[]);
    check(text::unfinished_work, &[("a.md", "a\n<<<<<<< HEAD\n=======\n>>>>>>> other\n")], &["a.md:2", "a.md:4"]);
}

#[test]
fn a_limit_is_used_outside_its_file() {
    let limits = "//! Bounds.\n/// A.\npub const A_MAX: usize = 1;\npub(crate) const AA_MAX: usize = A_MAX;\n";
    let path = "crates/everhook-core/src/limits.rs";
    let check = |other: &str, want: &[&str]| {
        let files = [(path, limits), ("crates/everhook-api/src/a.rs", other)];
        check(limits::every_limit_is_used, &files, want);
    };
    check("use A_MAX;\nuse AA_MAX;", &[]);
    check("use AA_MAX;", &[]);
    check("use A_MAX;", &["crates/everhook-core/src/limits.rs:4"]);
    check("// A_MAX\nlet BA_MAX;", &["crates/everhook-core/src/limits.rs:3", "crates/everhook-core/src/limits.rs:4"]);
}

#[test]
fn a_comment_starts_with_a_named_thing() {
    let text = "//! What a task is.\n\n/// Who asks.\n// The node\n// Which asks.\n\
                /// Whether it is due.\n///\n/// Whose turn it is.\n";
    let path = "crates/everhook-core/src/task.rs";
    let want = [1, 3, 8].map(|line| format!("{path}:{line}"));
    check(prose::comments_name_a_subject, &[(path, text)], &want.each_ref().map(String::as_str));
    check(prose::comments_name_a_subject, &[("docs/a.md", text)], &[]);
}

#[test]
fn a_long_line_of_prose_is_found() {
    let long = "word ".repeat(25);
    let in_file = |path: &'static str, line: String, is_found: bool| {
        let place = format!("{path}:2");
        let want = is_found.then_some(place.as_str());
        check(prose::lines_fit, &[(path, &format!("\n{line}\n"))], want.as_slice());
    };
    in_file("crates/everhook-core/src/task.rs", format!("    /// {long}"), true);
    in_file("crates/everhook-core/src/task.rs", format!("let text = \"{long}\";"), false);
    in_file("crates/everhook-store/queries/lane.sql", format!("-- {long}"), true);
    in_file("docs/delivery.md", long.clone(), true);
    in_file("docs/delivery.md", format!("| {long} |"), false);
    in_file("docs/delivery.md", format!("```\n{long}\n```"), false);
    in_file("web/src/app.tsx", format!("// {long}"), false);
}

#[test]
fn a_public_type_has_its_name_alone() {
    let files = |second: &'static str| {
        [("crates/everhook-core/src/a.rs", "pub struct Lane {"), ("crates/everhook-store/src/b.rs", second)]
    };
    let rule = names::unique_public_types;
    check(rule, &files("//! B.\npub enum Lane<T> {"), &["crates/everhook-store/src/b.rs:2"]);
    check(
        rule,
        &[("crates/everhook-core/src/a.rs", "pub struct A;\npub type A<T> = T;")],
        &["crates/everhook-core/src/a.rs:2"],
    );
    check(rule, &files("pub(crate) struct Lane;"), &[]);
    check(rule, &files("pub struct LaneId;"), &[]);
    check(rule, &files("mod tests {\npub struct Lane;\n}"), &[]);
    let customers = ("crates/everhook-worker/src/c.rs", "pub struct Lane {");
    check(rule, &[("crates/everhook-core/src/a.rs", "pub trait Lane: Send {"), customers], &[]);
}

#[test]
fn a_module_of_a_store_needs_a_twin() {
    let (sqlite, postgres) = ("crates/everhook-sqlite/src/job/steer.rs", "crates/everhook-postgres/src/job/steer.rs");
    let twins = |files: &[(&str, &str)], want: &[&str]| check(names::twins, files, want);
    twins(&[(sqlite, ""), (postgres, "")], &[]);
    twins(&[(sqlite, "")], &["crates/everhook-sqlite/src/job/steer.rs:1"]);
    twins(&[("crates/everhook-sqlite/src/writer.rs", ""), ("crates/everhook-sqlite/src/writer/tests.rs", "")], &[]);
    twins(&[("crates/everhook-postgres/src/writer.rs", "")], &["crates/everhook-postgres/src/writer.rs:1"]);
    let plumbing = |files: &[(&str, &str)], want: &[&str]| {
        check(|tree| names::stale_plumbing(tree, &[("everhook-sqlite", &["writer"])]), files, want);
    };
    let (sqlite, postgres) = ("crates/everhook-sqlite/src/writer.rs", "crates/everhook-postgres/src/writer.rs");
    plumbing(&[(sqlite, "")], &[]);
    plumbing(&[(sqlite, ""), (postgres, "")], &["xtask/src/tidy/names.rs:1"]);
    plumbing(&[], &["xtask/src/tidy/names.rs:1"]);
}
