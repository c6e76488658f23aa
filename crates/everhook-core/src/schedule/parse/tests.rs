use super::*;

#[track_caller]
fn refuse(text: &str, want: &str) {
    assert_eq!(text.parse::<Cron>().unwrap_err().to_string(), want);
}

/// Asserts that two texts mean the same expression.
#[track_caller]
fn same(one: &str, other: &str) {
    let (one, other) = (one.parse::<Cron>().unwrap(), other.parse::<Cron>().unwrap());
    assert_eq!(Cron { text: String::new(), ..one }, Cron { text: String::new(), ..other });
}

#[test]
fn five_fields_are_six_with_second_zero() {
    same("5 4 * * *", "0 5 4 * * *");
}

#[test]
fn names_stand_for_numbers_in_any_case() {
    same("0 0 * JAN,dec mon", "0 0 * 1,12 1");
    same("0 0 * * SUN", "0 0 * * 7");
    same("0 0 * * 0", "0 0 * * 7");
    same("0 0 * feb-apr Tue-Thu", "0 0 * 2-4 2-4");
}

#[test]
fn ranges_lists_and_steps() {
    same("*/15 * * * *", "0,15,30,45 * * * *");
    same("10-20/5 * * * *", "10,15,20 * * * *");
    same("50/5 * * * *", "50,55 * * * *");
    same("1,3-5,*/30 * * * *", "0,1,3,4,5,30 * * * *");
    same("0 0 * * FRI-SUN", "0 0 * * 0,5,6");
    same("0 0 * * 5-7", "0 0 * * 0,5,6");
    same("*/90 * * * *", "0 * * * *");
    same("  0\t0  1 1 *  ", "0 0 1 1 *");
}

#[test]
fn nicknames_stand_for_expressions() {
    same("@hourly", "0 * * * *");
    same("@daily", "0 0 * * *");
    same("@midnight", "@daily");
    same("@weekly", "0 0 * * SUN");
    same("@monthly", "0 0 1 * *");
    same(" @YEARLY ", "0 0 1 1 *");
    assert_eq!("@daily".parse::<Cron>().unwrap().as_str(), "@daily");
}

#[test]
fn an_error_says_where_it_is() {
    refuse("0 0 32 * *", "invalid cron at field 3 (day of month), column 5: 32 is out of range, 1 to 31");
    refuse("0 0 0 * *", "invalid cron at field 3 (day of month), column 5: 0 is out of range, 1 to 31");
    refuse("61 * * * * *", "invalid cron at field 1 (second), column 1: 61 is out of range, 0 to 59");
    refuse("* 24 * * *", "invalid cron at field 2 (hour), column 3: 24 is out of range, 0 to 23");
    refuse("  * * * 1,2,13 *", "invalid cron at field 4 (month), column 13: 13 is out of range, 1 to 12");
    refuse("* * * * 8", "invalid cron at field 5 (day of week), column 9: 8 is out of range, 0 to 7");
    refuse("* * * * MOO", "invalid cron at field 5 (day of week), column 9: unknown name \"MOO\"");
    refuse("* * * JANUARY *", "invalid cron at field 4 (month), column 7: unknown name \"JANUARY\"");
    refuse("MON * * * *", "invalid cron at field 1 (minute), column 1: unknown name \"MON\"");
    refuse("*/0 * * * *", "invalid cron at field 1 (minute), column 3: a step must be at least 1");
    refuse("*/x * * * *", "invalid cron at field 1 (minute), column 3: expected a number as the step");
    refuse("1,, * * * *", "invalid cron at field 1 (minute), column 3: expected a number or *");
    refuse("1- * * * *", "invalid cron at field 1 (minute), column 3: expected a number or *");
    refuse("* * * * 1,", "invalid cron at field 5 (day of week), column 11: expected a number, a name or *");
    refuse("-1 * * * *", "invalid cron at field 1 (minute), column 1: expected a number or *");
    refuse("30-10 * * * *", "invalid cron at field 1 (minute), column 1: the range runs backwards, from 30 to 10");
    refuse("* 5,22-2 * * *", "invalid cron at field 2 (hour), column 5: the range runs backwards, from 22 to 2");
    refuse("** * * * *", "invalid cron at field 1 (minute), column 2: unexpected '*'");
    refuse("* * L * *", "invalid cron at field 3 (day of month), column 5: unknown name \"L\"");
    refuse("* * 15W * *", "invalid cron at field 3 (day of month), column 7: unexpected 'W'");
    refuse("* * ? * *", "invalid cron at field 3 (day of month), column 5: expected a number or *");
    refuse("* * * * 1#2", "invalid cron at field 5 (day of week), column 10: unexpected '#'");
    refuse("99999999999 * * * *", "invalid cron at field 1 (minute), column 1: 4294967295 is out of range, 0 to 59");
}

#[test]
fn columns_count_characters_and_offsets_bytes() {
    let error = "* ü * * *".parse::<Cron>().unwrap_err();
    assert_eq!((error.column, error.offset, error.field), (3, 2, Some((2, CronField::Hour))));
    let error = "* ,ü * * *".parse::<Cron>().unwrap_err();
    assert_eq!((error.column, error.offset), (3, 2));
    let error = "* 1ü1 32 * *".parse::<Cron>().unwrap_err();
    assert_eq!((error.column, error.offset), (4, 3));
}

#[test]
fn an_expression_that_is_wrong_as_a_whole() {
    refuse("", "invalid cron at column 1: the expression is empty");
    refuse("  ", "invalid cron at column 1: the expression is empty");
    refuse("* * * *", "invalid cron at column 8: the expression has 4 fields, expected 5, or 6 with seconds first");
    refuse(
        "* * * * * * 2030",
        "invalid cron at column 13: the expression has 7 fields, expected 5, or 6 with seconds first",
    );
    refuse(
        " @reboot",
        "invalid cron at column 2: unknown nickname, expected @hourly, @daily, @midnight, @weekly, @monthly or @yearly",
    );
    refuse(&"*".repeat(257), "invalid cron at column 1: the expression has more than 256 bytes");
}

#[test]
fn what_would_never_run_is_refused() {
    let never = "the expression never runs: none of these months has such a day";
    refuse("0 0 30 2 *", &format!("invalid cron at field 3 (day of month), column 5: {never}"));
    refuse("0 0 0 31 4,6,9,11 *", &format!("invalid cron at field 4 (day of month), column 7: {never}"));
    for possible in ["0 0 29 2 *", "0 0 31 4-5 *", "0 0 30 2 MON", "0 0 29 2 */7"] {
        assert!(possible.parse::<Cron>().is_ok(), "{possible}");
    }
}
