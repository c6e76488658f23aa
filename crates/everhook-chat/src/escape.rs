//! Escapes of values for the markup of each platform, and cuts at the limits of a platform.
//!
//! A value never mentions anybody, never starts a link and never ends the formatting around it.

use everhook_core::chat::ChatKind;

/// The markup that a platform reads in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// No markup.
    Plain,
    /// Slack's own markup, in which only three characters are special.
    Mrkdwn,
    /// Markdown with backslashes.
    Markdown,
    /// The HTML of cards.
    Html,
    /// Markdown with numeric entities, in the cards of Feishu and Lark.
    Entities,
    /// Markdown without any escape: special characters are replaced by similar ones.
    Lookalikes,
}

impl Markup {
    /// The markup of descriptions and field values.
    pub fn of(kind: ChatKind) -> Markup {
        match kind {
            ChatKind::Slack => Markup::Mrkdwn,
            ChatKind::Discord | ChatKind::Teams | ChatKind::DingTalk => Markup::Markdown,
            ChatKind::GoogleChat => Markup::Html,
            ChatKind::Feishu | ChatKind::Lark => Markup::Entities,
            ChatKind::WeCom => Markup::Lookalikes,
        }
    }
}

/// Escapes a value, without control characters.
pub fn escape(markup: Markup, value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars().filter(|c| is_shown(*c)) {
        match markup {
            Markup::Plain => text.push(c),
            Markup::Mrkdwn | Markup::Html => match c {
                '&' => text.push_str("&amp;"),
                '<' => text.push_str("&lt;"),
                '>' => text.push_str("&gt;"),
                c => text.push(c),
            },
            Markup::Markdown => {
                if is_markdown(c) {
                    text.push('\\');
                }
                text.push(c);
            }
            Markup::Entities if is_markdown(c) || matches!(c, '&' | ':') => {
                text.push_str(&format!("&#{};", u32::from(c)));
            }
            Markup::Entities => text.push(c),
            Markup::Lookalikes => text.push(lookalike(c)),
        }
    }
    text
}

/// Removes control characters and line breaks, for titles and labels.
pub fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    spaced.trim().chars().filter(|c| is_shown(*c)).collect()
}

/// Cuts an escaped text to `max` units of the platform. The end is never in the middle of an escape.
pub fn cut(text: &str, max: usize) -> String {
    let units = |c: char| c.len_utf16();
    if text.chars().map(units).sum::<usize>() <= max {
        return text.to_owned();
    }
    end_at(text, max.saturating_sub(1), units)
}

/// Cuts an escaped text to `max` bytes.
pub fn cut_bytes(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    end_at(text, max.saturating_sub('…'.len_utf8()), char::len_utf8)
}

fn end_at(text: &str, max: usize, units: impl Fn(char) -> usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += units(*c);
        used <= max
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    // An entity is at most ten characters long.
    if let Some(start) = kept.rfind('&')
        && kept.len() - start <= 10
        && kept.get(start..).is_some_and(|rest| !rest.contains(';'))
    {
        kept.truncate(start);
    }
    let backslashes = kept.chars().rev().take_while(|c| *c == '\\').count();
    if backslashes % 2 == 1 {
        kept.pop();
    }
    kept.push('…');
    kept
}

/// Controls would break a card, and marks of direction could hide the meaning of a text.
fn is_shown(c: char) -> bool {
    c == '\n' || !(c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'))
}

fn is_markdown(c: char) -> bool {
    matches!(
        c,
        '\\' | '`' | '*' | '_' | '~' | '|' | '[' | ']' | '(' | ')' | '<' | '>' | '#' | '!' | '+' | '-' | '@' | '$'
    )
}

fn lookalike(c: char) -> char {
    match c {
        '<' => '＜',
        '>' => '＞',
        '*' => '＊',
        '_' => '＿',
        '[' => '［',
        ']' => '］',
        '`' => 'ˋ',
        '#' => '＃',
        '@' => '＠',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_mentions_nobody_and_formats_nothing() {
        let check = |markup, want: &str| assert_eq!(escape(markup, "<!here> @all *b* [x](y)\u{7}\u{202e}"), want);
        check(Markup::Plain, "<!here> @all *b* [x](y)");
        check(Markup::Mrkdwn, "&lt;!here&gt; @all *b* [x](y)");
        check(Markup::Html, "&lt;!here&gt; @all *b* [x](y)");
        check(Markup::Markdown, r"\<\!here\> \@all \*b\* \[x\]\(y\)");
        check(Markup::Entities, "&#60;&#33;here&#62; &#64;all &#42;b&#42; &#91;x&#93;&#40;y&#41;");
        check(Markup::Lookalikes, "＜!here＞ ＠all ＊b＊ ［x］(y)");
    }

    #[test]
    fn a_cut_never_ends_in_an_escape() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut("ab&amp;cd", 6), "ab…");
        assert_eq!(cut(r"ab\*cdefg", 4), "ab…");
        assert_eq!(cut(r"a\\*cdefg", 4), r"a\\…");
        assert_eq!(cut("😀😀😀", 5), "😀😀…");
        assert_eq!(cut_bytes("中文字符", 9), "中文…");
    }
}
