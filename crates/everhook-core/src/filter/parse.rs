//! Parses filter expressions.

use regex::{Regex, RegexBuilder};

use crate::limits::{FILTER_DEPTH_MAX, FILTER_NODES_MAX, FILTER_PATTERN_BYTES_MAX};

/// The position of a mistake in bytes, and the broken rule.
pub(super) type Mistake = (usize, String);

/// A part of an expression, with its position in the text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) term: Term,
}

#[derive(Debug)]
pub(super) enum Term {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// A variable of the message, or of the enclosing loop.
    Variable(String),
    Member(Box<Node>, String),
    Index(Box<Node>, Box<Node>),
    /// `has(a.b)`: whether the member exists.
    Has(Box<Node>, String),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
    Size(Box<Node>),
    TextTest(TextTest, Box<Node>, Box<Node>),
    Matches(Box<Node>, Regex),
    Loop(Loop, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextTest {
    StartsWith,
    EndsWith,
    Contains,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    Exists,
    All,
    ExistsOne,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Int(i64),
    Float(f64),
    Text(String),
    Symbol(&'static str),
    End,
}

/// Longer symbols come first.
const SYMBOLS: [&str; 23] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")", "[", "]",
    "{",
];
/// The variables of a message.
pub(super) const VARIABLES: [&str; 6] = ["payload", "eventType", "eventId", "channels", "tags", "headers"];

pub(super) fn parse(text: &str) -> Result<Node, Mistake> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0, nodes: 0, bound: None };
    let root = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(root),
        _ => Err((parser.at(), "has something after its end".to_owned())),
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Mistake> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, length) = if first.is_ascii_whitespace() {
            at += 1;
            continue;
        } else if first.is_ascii_digit() {
            number(at, rest)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Name(rest[..end].to_owned()), end)
        } else if first == '"' || first == '\'' {
            string(at, rest, first)?
        } else {
            let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
            let symbol = symbol.ok_or_else(|| (at, format!("has an unexpected character {first:?}")))?;
            (Token::Symbol(symbol), symbol.len())
        };
        tokens.push((at, token));
        at += length;
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

fn number(at: usize, rest: &str) -> Result<(Token, usize), Mistake> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut end = digits(rest);
    let mut is_float = false;
    if let Some(fraction) = rest[end..].strip_prefix('.')
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        (is_float, end) = (true, end + 1 + digits(fraction));
    }
    if let Some(exponent) = rest[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        if exponent[sign..].starts_with(|c: char| c.is_ascii_digit()) {
            (is_float, end) = (true, end + 1 + sign + digits(&exponent[sign..]));
        }
    }
    let bad = |_| (at, "has a number that is too large".to_owned());
    let token = if is_float {
        Token::Float(rest[..end].parse().map_err(|_| bad(()))?)
    } else {
        Token::Int(rest[..end].parse().map_err(|_| bad(()))?)
    };
    Ok((token, end))
}

fn string(at: usize, rest: &str, quote: char) -> Result<(Token, usize), Mistake> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((offset, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((Token::Text(text), offset + 1)),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                Some(c @ ('\\' | '"' | '\'')) => text.push(c),
                _ => return Err((at + offset, r#"may only have the escapes \n, \r, \t, \\, \" and \'"#.to_owned())),
            },
            c => text.push(c),
        }
    }
    Err((at, "has a text without an end".to_owned()))
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
    nodes: usize,
    /// The variable of the enclosing loop.
    bound: Option<String>,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(at, _)| *at)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn is(&mut self, symbol: &str) -> bool {
        let is_it = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        self.next += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), Mistake> {
        if self.is(symbol) { Ok(()) } else { Err((self.at(), format!("requires {symbol:?} here"))) }
    }

    fn node(&mut self, at: usize, term: Term) -> Result<Node, Mistake> {
        self.nodes += 1;
        if self.nodes > FILTER_NODES_MAX {
            return Err((at, format!("must have at most {FILTER_NODES_MAX} parts")));
        }
        Ok(Node { at, term })
    }

    fn expression(&mut self) -> Result<Node, Mistake> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return Err((self.at(), format!("must not be nested deeper than {FILTER_DEPTH_MAX} levels")));
        }
        let at = self.at();
        let mut node = self.binary(0)?;
        if self.is("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            let no = self.expression()?;
            node = self.node(at, Term::Choice(Box::new(node), Box::new(yes), Box::new(no)))?;
        }
        self.depth -= 1;
        Ok(node)
    }

    /// Parses operators of at least this precedence.
    fn binary(&mut self, lowest: u8) -> Result<Node, Mistake> {
        let mut left = self.unary()?;
        while let Some((operator, precedence)) = self.operator().filter(|(_, precedence)| *precedence >= lowest) {
            let at = self.at();
            self.next += 1;
            let right = self.binary(precedence + 1)?;
            left = self.node(at, Term::Binary(operator, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        let symbol = match self.peek() {
            Token::Symbol(symbol) => *symbol,
            Token::Name(name) if name == "in" => "in",
            _ => return None,
        };
        Some(match symbol {
            "||" => (Operator::Or, 0),
            "&&" => (Operator::And, 1),
            "==" => (Operator::Equal, 2),
            "!=" => (Operator::NotEqual, 2),
            "<" => (Operator::Less, 2),
            "<=" => (Operator::LessEqual, 2),
            ">" => (Operator::Greater, 2),
            ">=" => (Operator::GreaterEqual, 2),
            "in" => (Operator::In, 2),
            "+" => (Operator::Add, 3),
            "-" => (Operator::Subtract, 3),
            "*" => (Operator::Multiply, 4),
            "/" => (Operator::Divide, 4),
            "%" => (Operator::Remainder, 4),
            _ => return None,
        })
    }

    fn unary(&mut self) -> Result<Node, Mistake> {
        let at = self.at();
        let is_not = self.is("!");
        if !is_not && !self.is("-") {
            return self.postfix();
        }
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return Err((at, format!("must not be nested deeper than {FILTER_DEPTH_MAX} levels")));
        }
        let inner = Box::new(self.unary()?);
        self.depth -= 1;
        self.node(at, if is_not { Term::Not(inner) } else { Term::Negative(inner) })
    }

    fn postfix(&mut self) -> Result<Node, Mistake> {
        let mut node = self.primary()?;
        loop {
            let at = self.at();
            if self.is(".") {
                let Token::Name(name) = self.take() else { return Err((at, "requires a name after '.'".to_owned())) };
                node = if self.is("(") {
                    self.method(at, node, &name)?
                } else {
                    self.node(at, Term::Member(Box::new(node), name))?
                };
            } else if self.is("[") {
                let index = self.expression()?;
                self.expect("]")?;
                node = self.node(at, Term::Index(Box::new(node), Box::new(index)))?;
            } else {
                return Ok(node);
            }
        }
    }

    fn primary(&mut self) -> Result<Node, Mistake> {
        let at = self.at();
        let term = match self.take() {
            Token::Int(value) => Term::Int(value),
            Token::Float(value) => Term::Float(value),
            Token::Text(text) => Term::Text(text),
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Symbol("[") => Term::List(self.items("]")?),
            Token::Name(name) => return self.named(at, name),
            Token::Symbol(symbol) => return Err((at, format!("has an unexpected {symbol:?}"))),
            Token::End => return Err((at, "ends too early".to_owned())),
        };
        self.node(at, term)
    }

    fn named(&mut self, at: usize, name: String) -> Result<Node, Mistake> {
        if self.is("(") {
            return self.function(at, &name);
        }
        let term = match name.as_str() {
            "true" => Term::Bool(true),
            "false" => Term::Bool(false),
            "null" => Term::Null,
            known if VARIABLES.contains(&known) || self.bound.as_deref() == Some(known) => Term::Variable(name),
            _ => {
                let rule = format!("has an unknown name {name:?}; the variables are {}", VARIABLES.join(", "));
                return Err((at, rule));
            }
        };
        self.node(at, term)
    }

    /// Parses the arguments of a function, after its opening bracket.
    fn function(&mut self, at: usize, name: &str) -> Result<Node, Mistake> {
        let mut arguments = self.items(")")?;
        let argument = arguments.pop().filter(|_| arguments.is_empty());
        let argument = argument.ok_or_else(|| (at, format!("requires one argument of {name}")));
        match name {
            "size" => {
                let argument = argument?;
                self.node(at, Term::Size(Box::new(argument)))
            }
            "has" => match argument?.term {
                Term::Member(of, member) => self.node(at, Term::Has(of, member)),
                _ => Err((at, "requires a member in has, such as has(payload.id)".to_owned())),
            },
            _ => Err((at, format!("has an unknown function {name:?}; the functions are has and size"))),
        }
    }

    /// Parses the arguments of a method, after its opening bracket.
    fn method(&mut self, at: usize, of: Node, name: &str) -> Result<Node, Mistake> {
        let test = match name {
            "exists" => return self.each(at, Loop::Exists, of),
            "all" => return self.each(at, Loop::All, of),
            "exists_one" => return self.each(at, Loop::ExistsOne, of),
            "matches" => return self.pattern(at, of),
            "size" => {
                self.expect(")")?;
                return self.node(at, Term::Size(Box::new(of)));
            }
            "startsWith" => TextTest::StartsWith,
            "endsWith" => TextTest::EndsWith,
            "contains" => TextTest::Contains,
            _ => {
                let known = "startsWith, endsWith, contains, matches, size, exists, exists_one and all";
                return Err((at, format!("has an unknown method {name:?}; the methods are {known}")));
            }
        };
        let argument = self.expression()?;
        self.expect(")")?;
        self.node(at, Term::TextTest(test, Box::new(of), Box::new(argument)))
    }

    fn pattern(&mut self, at: usize, of: Node) -> Result<Node, Mistake> {
        let place = self.at();
        let Token::Text(pattern) = self.take() else {
            return Err((place, "requires a text in quotes as the pattern of matches".to_owned()));
        };
        self.expect(")")?;
        let regex = RegexBuilder::new(&pattern).size_limit(FILTER_PATTERN_BYTES_MAX).build();
        let regex = regex.map_err(|_| (place, "has a pattern that is invalid or too large".to_owned()))?;
        self.node(at, Term::Matches(Box::new(of), regex))
    }

    fn each(&mut self, at: usize, kind: Loop, of: Node) -> Result<Node, Mistake> {
        if self.bound.is_some() {
            return Err((at, "must not have a loop inside a loop".to_owned()));
        }
        let place = self.at();
        let Token::Name(name) = self.take() else { return Err((place, "requires the name of a variable".to_owned())) };
        if VARIABLES.contains(&name.as_str()) {
            return Err((place, format!("must not use the name {name} for the variable of a loop")));
        }
        self.expect(",")?;
        self.bound = Some(name);
        let body = self.expression()?;
        self.bound = None;
        self.expect(")")?;
        self.node(at, Term::Loop(kind, Box::new(of), Box::new(body)))
    }

    fn items(&mut self, end: &'static str) -> Result<Vec<Node>, Mistake> {
        let mut items = Vec::new();
        if self.is(end) {
            return Ok(items);
        }
        loop {
            items.push(self.expression()?);
            if !self.is(",") {
                break;
            }
        }
        self.expect(end)?;
        Ok(items)
    }
}
