//! Suggestions for misspelt names.
//!
//! Unknown settings, variables and JSON fields are reported with the suggestion; it never replaces the given name.

use crate::limits::SUGGESTED_FOR_CHARS_MAX;

/// Below this similarity, two names share only a few letters.
const SIMILARITY_MIN: f64 = 0.8;

/// Returns the candidate most similar to `name`, or `None` if no candidate is similar.
///
/// Case and separators do not count: `delay_seconds` suggests `delaySeconds`.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The comparison takes time proportional to the product of both lengths, and `name` may come from an attacker.
    if name.chars().nth(SUGGESTED_FOR_CHARS_MAX).is_some() {
        return None;
    }
    let name = letters(name);
    let similarity = |candidate: &str| strsim::jaro_winkler(&name, &letters(candidate));
    let rated = candidates.into_iter().map(|candidate| (similarity(candidate), candidate));
    let (best, candidate) = rated.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best >= SIMILARITY_MIN).then_some(candidate)
}

fn letters(name: &str) -> String {
    name.chars().filter(|char| !matches!(char, '_' | '-' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 8] =
        ["queue", "kind", "payload", "delaySeconds", "runAt", "priority", "timeoutSeconds", "maxAttempts"];

    #[track_caller]
    fn check(name: &str, want: Option<&str>) {
        assert_eq!(nearest(name, FIELDS), want);
    }

    #[test]
    fn a_misspelt_name_suggests_the_known_one() {
        check("delay_seconds", Some("delaySeconds"));
        check("DELAYSECONDS", Some("delaySeconds"));
        check("delay", Some("delaySeconds"));
        check("run-at", Some("runAt"));
        check("priorty", Some("priority"));
        check("quueu", Some("queue"));
        check("timeout", Some("timeoutSeconds"));
        check("max_attempt", Some("maxAttempts"));
    }

    #[test]
    fn a_name_like_none_suggests_nothing() {
        check("colour", None);
        check("x", None);
        check("", None);
        check(&"queue".repeat(1000), None);
        assert_eq!(nearest("queue", []), None);
    }
}
