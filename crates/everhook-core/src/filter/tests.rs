use proptest::prelude::*;
use serde_json::json;

use super::evaluate::Scope;
use super::expression::Expression;
use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[track_caller]
fn check_pattern(pattern: &str, yes: &[&str], no: &[&str]) {
    let pattern: TypePattern = pattern.parse().unwrap();
    for text in yes {
        assert!(pattern.matches(&name(text)), "{pattern} {text}");
    }
    for text in no {
        assert!(!pattern.matches(&name(text)), "{pattern} {text}");
    }
}

#[test]
fn a_star_is_one_segment_in_the_middle_and_any_number_at_the_end() {
    check_pattern("invoice.paid", &["invoice.paid"], &["invoice", "invoice.paid.late", "invoices.paid"]);
    check_pattern("invoice.*", &["invoice.paid", "invoice.payment.failed"], &["invoice", "invoices.x", "x.invoice.y"]);
    check_pattern("a.*.c", &["a.b.c", "a.x.c"], &["a.c", "a.b.b.c", "a.b.c.d", "a.b"]);
    check_pattern("*.created", &["user.created"], &["created", "a.b.created", "user.created.x"]);
}

#[test]
fn patterns_that_cannot_match_as_written_are_refused() {
    for (text, rule) in [
        ("inv*", BadPattern::Star),
        ("a.**", BadPattern::Star),
        ("*", BadPattern::Everything),
        ("", BadPattern::Name(BadName::Empty)),
        ("a b.*", BadPattern::Name(BadName::BadCharacter)),
    ] {
        assert_eq!(text.parse::<TypePattern>(), Err(rule), "{text}");
    }
    let read: TypePattern = serde_json::from_str(r#""a.*""#).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), r#""a.*""#);
}

/// Evaluates an expression over a fixed message.
fn run(text: &str, steps: usize) -> String {
    let payload = json!({
        "amount": 120, "price": 9.5, "country": "DE", "active": true, "none": null, "size": "L",
        "items": [{ "sku": "a-1", "count": 2 }, { "sku": "b-2", "count": 0 }], "tags": ["x", "y"],
        "customer": { "id": "c1", "vip": false },
    });
    let (channels, tags) = ([name("red"), name("blue")], [name("beta")]);
    let headers = [("X-Tenant".to_owned(), "c1".to_owned())].into();
    let scope = Scope {
        payload: &payload,
        event_type: "invoice.paid",
        event_id: None,
        channels: &channels,
        tags: &tags,
        headers: &headers,
        content_type: "application/json",
    };
    let root = match Expression::compile(text) {
        Ok(expression) => expression,
        Err(error) => return error.to_string(),
    };
    match root.evaluate(&scope, steps).0 {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(text: &str, want: &str) {
    assert_eq!(run(text, 20_000), want, "{text}");
}

#[test]
fn expressions_read_the_message() {
    for text in [
        "payload.amount > 100",
        "payload.amount >= 120 && payload.price < 9.75",
        "payload.amount == 120.0",
        "payload['country'] in ['DE', \"FR\"]",
        "payload.customer.vip == false",
        "!payload.customer.vip",
        "payload.none == null",
        "has(payload.customer.id) && !has(payload.customer.name)",
        "eventType.startsWith('invoice.') && eventType.endsWith('paid')",
        "'red' in channels && 'green' in channels == false",
        "tags[0] == 'beta' && size(tags) == 1",
        "eventId == null",
        "headers['x-tenant'] == payload.customer.id",
        "headers['Content-Type'] == 'application/json'",
        "payload.items.exists(item, item.count > 1)",
        "payload.items.all(item, item.sku.matches('^[ab]-[0-9]$'))",
        "payload.items.exists_one(item, item.count == 0)",
        "payload.customer.exists(key, key == 'vip')",
        "payload.items[1].sku.contains('-')",
        "payload.size == 'L' && payload.tags.size() == 2",
        "payload.tags == ['x', 'y']",
        "payload.amount + 1 == 121 && payload.amount % 7 == 1 && -payload.amount < 0",
        "payload.price * 2 == 19.0 && 7 / 2 == 3",
        "payload.country + '-' + payload.size == 'DE-L'",
        "payload.amount > 100 ? payload.active : false",
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9",
        "true || false && false",
        r#""it's" == 'it\'s' && "\"" == '"'"#,
    ] {
        check(text, "true");
    }
    check("payload.amount > 200", "false");
    check("payload.active", "true");
}

#[test]
fn one_side_may_decide_although_the_other_fails() {
    check("payload.missing == 1 || true", "true");
    check("true || payload.missing == 1", "true");
    check("payload.missing == 1 && false", "false");
    check("payload.missing == 1 || false", r#"the member "missing" does not exist"#);
    check("payload.items.exists(item, item.other == 1 || item.count == 2)", "true");
}

#[test]
fn failures_have_a_reason() {
    check("payload.missing", r#"the member "missing" does not exist"#);
    check("payload.amount.x == 1", "an object is required, and there is another value");
    check("payload.tags[7] == 'x'", "the list has no item 7");
    check("payload.country > 3", "two numbers or two texts can be compared, and no other values");
    check("payload.amount / 0 == 1", "a division by zero");
    check("9223372036854775807 + payload.amount == 1", "the result of a calculation is too large");
    check("payload.amount", "a truth value is required, and there is another value");
    assert_eq!(run("payload.items.exists(item, item.count > 5)", 8), "it takes too many steps");
    assert_eq!(run("payload.missing == 1 || payload.amount > 1", 3), "it takes too many steps");
}

#[test]
fn mistakes_are_found_before_the_first_message_and_have_a_place() {
    check("", "ends too early, at character 1");
    check("payload.amount >", "ends too early, at character 17");
    check(
        "paylod.amount > 1",
        "has an unknown name \"paylod\"; the variables are payload, eventType, eventId, channels, tags, headers, at character 1",
    );
    check("payload.amount > 1)", "has something after its end, at character 19");
    check("payload.a # b", "has an unexpected character '#', at character 11");
    check("'abc", "has a text without an end, at character 1");
    check("1 + 2", "must be true or false as a whole, at character 3");
    check("payload.a + payload.b", "must be true or false as a whole, at character 11");
    check("payload.a + 1", "must be true or false as a whole, at character 11");
    check("eventType == 3", "compares values of different kinds, at character 14");
    check("eventType > 3", "compares a number with a text, at character 13");
    check("!eventType", "requires a truth value after '!', at character 2");
    check("eventType && true", "requires truth values beside && and ||, at character 1");
    check("'ü' == eventType.x", "has a member of a value that is no object, at character 8");
    check("eventType.matches('(')", "has a pattern that is invalid or too large, at character 19");
    check("eventType.matches('a{1000}{1000}')", "has a pattern that is invalid or too large, at character 19");
    check("eventType.matches(eventType)", "requires a text in quotes as the pattern of matches, at character 19");
    check(
        "eventType.lower()",
        "has an unknown method \"lower\"; the methods are startsWith, endsWith, contains, matches, size, exists, exists_one and all, at character 10",
    );
    check("now() > 1", "has an unknown function \"now\"; the functions are has and size, at character 1");
    check("has(payload)", "requires a member in has, such as has(payload.id), at character 1");
    check("tags.exists(a, channels.exists(b, a == b))", "must not have a loop inside a loop, at character 24");
    check(&"!".repeat(30), "must not be nested deeper than 24 levels, at character 24");
    check(&"(".repeat(30), "must not be nested deeper than 24 levels, at character 25");
    check(&format!("true{}", "||true".repeat(120)), "must have at most 200 parts, at character 599");
    check(&"a".repeat(1025), "must have at most 1024 bytes, at character 1");
}

#[test]
fn a_stored_expression_that_cannot_be_read_never_matches() {
    let stored = Expression::stored("from the future!".to_owned());
    assert_eq!(stored.as_str(), "from the future!");
    let endpoint = crate::fanout::tests::endpoint(None, None, Some(stored));
    let message = crate::fanout::tests::message("a.b", "", "{}");
    assert!(!passes(&endpoint, &Facts::of(&message)));
    let reason = explain(&endpoint, &Facts::of(&message)).remove(2);
    assert_eq!(
        (reason.passes, reason.reason.as_str()),
        (false, "the expression fails, which counts as false: this version cannot read it")
    );
}

#[test]
fn all_expressions_of_one_message_share_its_steps() {
    let list: Vec<u32> = (0..3000).collect();
    let payload = json!({ "list": list }).to_string();
    let expression = Expression::compile("payload.list.exists(n, n == 5000)").unwrap();
    let endpoint = crate::fanout::tests::endpoint(None, None, Some(expression));
    let message = crate::fanout::tests::message("a.b", "", &payload);
    let facts = Facts::of(&message);
    let reasons: Vec<String> = (0..100).map(|_| explain(&endpoint, &facts).remove(2).reason).collect();
    assert_eq!(reasons[0], "the expression is false");
    assert_eq!(reasons[99], "the expression fails, which counts as false: it takes too many steps");
}

proptest! {
    #[test]
    fn no_text_can_crash_the_compiler_or_outrun_its_steps(text in "[a-z.()\\[\\]0-9 '\"!&|=<>+*/%?:,-]{0,80}", steps in 0_usize..500) {
        run(&text, steps);
    }

    #[test]
    fn pieces_of_real_expressions_do_not_crash_either(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "payload", ".items", ".exists(i, ", ".all(i, ", "i", ".count", " == ", " > ", " + ", " && ", " || ", "1", "2.5",
            "'x'", "(", ")", "[", "]", "!", "-", " in ", "has(", "size(", ".size()", ".matches('a')", " ? ", " : ", "tags",
            "headers", "null", "true", ".contains('b')", " % ", " / ", "0",
        ]), 0..25),
        steps in 0_usize..2000,
    ) {
        run(&pieces.concat(), steps);
    }
}
