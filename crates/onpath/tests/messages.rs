//! docs/troubleshooting.md has every text by which the program tells somebody that something is wrong, and no others.
//!
//! The texts are read from the sources: those of error types (`#[error("…")]`), of the command's errors (`bail!`, `ensure!`, `anyhow!`,
//! `context`, `Err("…")` and what else makes one from a text), of the reasons that they name (`why: "…"`), of sentences that have a name
//! (`const`), and of the log from `warn` on. What differs from time to time (`{…}`) is `…` in the document. Left out is what nobody looks for: a text with less than two words of its own, and what only those see who
//! measure or test Onpath itself ([`TOOLS`]).

use crate::common::repository;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::parse::{ParseStream, Parser};
use syn::visit::{self, Visit};
use syn::{Expr, LitStr, Member, Token};

/// Crates whose errors come to a user, alone or as the reason of another one.
const CRATES: [&str; 9] = ["client", "data", "fuse", "host", "onpath", "session", "store", "transport", "wire"];
/// Tools for those who change Onpath: they measure it, simulate it and try its schedules.
const TOOLS: [&str; 4] = ["onpath/src/bench", "onpath/src/sim", "onpath/src/explore.rs", "fuse/src/floor"];
/// Macros whose text a user reads.
const MACROS: [&str; 6] = ["anyhow", "bail", "ensure", "eprintln", "error", "warn"];
/// Functions and methods that make an error of a text, or add one to an error.
const FUNCTIONS: [&str; 12] = [
    "Err",
    "context",
    "damaged",
    "map_err",
    "note",
    "ok_or",
    "ok_or_else",
    "refuse",
    "refused",
    "unlike",
    "with_context",
    "wrong",
];

/// Words of a text that has a name (`const`) from which on it is a sentence that is told.
const SENTENCE_WORDS: usize = 6;

/// A text as the document has it: `…` for what differs from time to time.
fn normal(format: &str) -> String {
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '{' | '}' if rest.peek() == Some(&next) => text.extend(rest.next()),
            '{' => {
                text.push('…');
                rest.find(|end| *end == '}');
            }
            other => text.push(other),
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether somebody could look for it: two words of its own.
fn can_be_looked_for(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1);
    words.count() >= 2
}

/// The text that an expression gives, if it is written down there.
fn text_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            syn::Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        Expr::Macro(call) if call.mac.path.is_ident("format") => texts_of_macro(&call.mac).into_iter().next(),
        Expr::MethodCall(call) if ["to_owned", "to_string", "into"].iter().any(|name| call.method == name) => {
            text_of(&call.receiver)
        }
        Expr::Reference(reference) => text_of(&reference.expr),
        Expr::Closure(closure) => text_of(&closure.body),
        Expr::Block(block) => match block.block.stmts.last()? {
            syn::Stmt::Expr(last, None) => text_of(last),
            _ => None,
        },
        _ => None,
    }
}

/// The arguments of a macro that are texts.
fn texts_of_macro(call: &syn::Macro) -> Vec<String> {
    let parser = |input: ParseStream| {
        let mut texts = Vec::new();
        while !input.is_empty() {
            if input.peek(LitStr) && (input.peek2(Token![,]) || input.fork().parse::<LitStr>().is_ok() && ends(input)) {
                texts.push(input.parse::<LitStr>()?.value());
            }
            while !input.is_empty() && !input.peek(Token![,]) {
                input.parse::<proc_macro2::TokenTree>()?;
            }
            let _ = input.parse::<Option<Token![,]>>()?;
        }
        Ok(texts)
    };
    parser.parse2(call.tokens.clone()).unwrap_or_default()
}

/// Whether one more token is the last one.
fn ends(input: ParseStream) -> bool {
    let ahead = input.fork();
    ahead.parse::<proc_macro2::TokenTree>().is_ok() && ahead.is_empty()
}

/// The texts of a file.
#[derive(Default)]
struct Texts(Vec<String>);

impl Texts {
    /// The last argument of such a function is what it tells.
    fn called(&mut self, name: &syn::Ident, arguments: &syn::punctuated::Punctuated<Expr, Token![,]>) {
        if FUNCTIONS.iter().any(|known| name == known) {
            self.0.extend(arguments.last().and_then(text_of));
        }
    }

    fn of(source: &str) -> Vec<String> {
        let mut texts = Texts::default();
        texts.visit_file(&syn::parse_file(source).expect("a source that compiles"));
        texts.0.iter().map(|text| normal(text)).filter(|text| can_be_looked_for(text)).collect()
    }
}

/// Whether an item is there in tests only.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "test")
    })
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("error")
            && let syn::Meta::List(list) = &attribute.meta
        {
            let first = |input: ParseStream| {
                let text = input.parse::<LitStr>()?;
                input.parse::<proc_macro2::TokenStream>()?;
                Ok(text.value())
            };
            self.0.extend(first.parse2(list.tokens.clone()).ok());
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string());
        if name.is_some_and(|name| MACROS.contains(&name.as_str())) {
            self.0.extend(texts_of_macro(call).into_iter().next());
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.called(&call.method, &call.args);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(last) = function.path.segments.last()
        {
            self.called(&last.ident, &call.args);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let (syn::Pat::Ident(name), Some(init)) = (&local.pat, &local.init)
            && name.ident == "why"
        {
            self.0.extend(text_of(&init.expr));
        }
        visit::visit_local(self, local);
    }

    /// A sentence that has a name; help has lines or a full stop.
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        let sentence = |text: &String| {
            !text.contains('\n') && !text.ends_with('.') && text.split_whitespace().count() >= SENTENCE_WORDS
        };
        self.0.extend(text_of(&item.expr).filter(sentence));
    }

    /// What an error type says that writes its text by itself.
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last()).map(|last| last.ident.to_string());
        if of.as_deref() == Some("Display")
            && matches!(&*item.self_ty, syn::Type::Path(what) if what.path.segments.last().is_some_and(|last| is_error(&last.ident)))
        {
            Written(self).visit_item_impl(item);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if matches!(&field.member, Member::Named(name) if name == "why") {
            self.0.extend(text_of(&field.expr));
        }
        visit::visit_field_value(self, field);
    }
}

/// Whether a type is an error by its name.
fn is_error(name: &syn::Ident) -> bool {
    let name = name.to_string();
    name.ends_with("Error") || name == "Undone"
}

/// The texts that a `Display` writes.
struct Written<'a>(&'a mut Texts);

impl<'ast> Visit<'ast> for Written<'_> {
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if call.path.is_ident("write") {
            self.0.0.extend(texts_of_macro(call));
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "write_str" {
            self.0.0.extend(call.args.first().and_then(text_of));
        }
        visit::visit_expr_method_call(self, call);
    }
}

/// The sources below a directory that are not of the tools.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.expect("an entry").path();
        if TOOLS.iter().any(|tool| path.ends_with(tool)) {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every text, and a file that has it.
fn told() -> BTreeMap<String, PathBuf> {
    let mut files = Vec::new();
    for name in CRATES {
        sources(&repository().join("crates").join(name).join("src"), &mut files);
    }
    let mut all = BTreeMap::new();
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a source");
        all.extend(Texts::of(&source).into_iter().map(|text| (text, file.clone())));
    }
    all
}

/// What the document has between backquotes in the first column of its tables.
fn explained(document: &str) -> BTreeSet<String> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let texts = cells.flat_map(|cell| cell.split("<br>")).map(|text| text.trim().trim_matches('`').trim().to_owned());
    texts.collect()
}

#[test]
fn every_message_is_explained() {
    let document = std::fs::read_to_string(repository().join("docs/troubleshooting.md")).expect("the document");
    let (told, explained) = (told(), explained(&document));
    assert!(told.len() >= 150, "only {} texts", told.len());
    let missing: Vec<String> = told
        .iter()
        .filter(|(text, _)| !explained.contains(*text))
        .map(|(text, file)| format!("{text}    ({})", file.strip_prefix(repository()).expect("below it").display()))
        .collect();
    let gone: Vec<&String> = explained.iter().filter(|text| !told.contains_key(*text)).collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md has not:\n{}", missing.join("\n"));
    assert!(gone.is_empty(), "docs/troubleshooting.md has what nothing says any more: {gone:#?}");
}

/// Each way by which a text comes to a user is seen, and what is left out is left out.
#[test]
fn texts_are_found_in_sources() {
    let source = r##"
        enum E { #[error("cannot open {path}: {source}")] A, #[error("{}: {}", a, b)] B, #[error("no room for {0}", x("one two"))] C }
        fn f() -> Result<(), String> {
            ensure!(a == "not this", "it is {} wide", width);
            tracing::warn!(error = %error, path = "not this", "the end is torn");
            tracing::debug!("not told to anybody");
            g().with_context(|| format!("cannot make {}", path)).context("in between");
            h().map_err(|_| { "no number there".to_owned() })?;
            if x { return Err(format!("give {{a}} or {b}")); }
            Err(Error::Damaged { why: "its length is odd".into() })
        }
        const SAID: &str = "a sentence of more than five words";
        const NAME: &str = "no sentence";
        impl std::fmt::Display for OddError {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result { write!(f, "{} is odd here", self.0) }
        }
        impl std::fmt::Display for Odd {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result { write!(f, "{} is no error", self.0) }
        }
        #[cfg(test)]
        mod tests { fn f() { panic!("no"); bail!("only in tests"); } }
    "##;
    let mut found = Texts::of(source);
    found.sort();
    let wanted = [
        "a sentence of more than five words",
        "cannot make …",
        "cannot open …: …",
        "give {a} or …",
        "in between",
        "it is … wide",
        "its length is odd",
        "no number there",
        "no room for …",
        "the end is torn",
        "… is odd here",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn the_first_column_is_read() {
    let document = "| what you see | why |\n| `a b …`<br>`` `c` d `` | no |\n| no | `e f` |\n";
    assert_eq!(explained(document), ["a b …", "`c` d"].map(str::to_owned).into());
}
