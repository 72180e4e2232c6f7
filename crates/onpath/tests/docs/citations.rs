//! Rules, schedules and papers are cited in one form, and what is cited exists.
//!
//! A rule is `R-14` (docs/internals/design.md) or `D-33` (dataplane/SPEC.md), P-n, V-n and C-n are kept for later ones. A schedule is
//! `schedule C10`, a course of one `schedule C14 (c)` (docs/internals/counterexamples.md). A section of a paper is `SwitchFS §5.2`, with the
//! papers of design.md; one of a document is `design.md, "Data"`. Comments of sources and all of the documents are looked at.

use super::{Document, documents, entries, is_test, named_test, repository};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What names the rules of a document, and what the schedules.
const RULES: &str = "RDPVC";
const SCHEDULES: &str = "CDFGEK";
/// Documents of before the contract was here.
const FORMER: [&str; 9] = [
    "DESIGN",
    "FINDINGS",
    "PROTOCOL-FINDINGS",
    "FUSE.md",
    "PATHS.md",
    "VISIBILITY.md",
    "CACHE.md",
    "PAPERS.md",
    "../shared",
];
/// What may be cited by its sections.
const SECTIONED: [&str; 5] = ["ARCHITECTURE", "design", "counterexamples", "kernel-fuse", "protocol"];

/// What there is to cite.
#[derive(Default)]
struct Contract {
    rules: BTreeSet<(char, u32)>,
    /// With the letters of their courses.
    schedules: BTreeMap<(char, u32), BTreeSet<char>>,
    papers: Vec<String>,
    /// (document, heading)
    sections: BTreeSet<(String, String)>,
}

/// A letter with a number, as rules and schedules have.
#[derive(Clone, Copy)]
struct Name {
    letter: char,
    number: u32,
    hyphen: bool,
    /// Where it begins and ends in its line.
    at: (usize, usize),
}

impl Name {
    fn id(&self) -> (char, u32) {
        (self.letter, self.number)
    }
}

/// The name that begins here.
fn name_at(line: &str, at: usize) -> Option<Name> {
    let rest = &line[at..];
    let letter = rest.chars().next().filter(char::is_ascii_uppercase)?;
    let hyphen = rest[1..].starts_with('-');
    let digits = &rest[1 + usize::from(hyphen)..];
    let digits = &digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())];
    let end = at + 1 + usize::from(hyphen) + digits.len();
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let before = line[..at].chars().next_back().is_some_and(|c| inside(c) || "-+/.$&".contains(c));
    let is_whole = !before && !line[end..].starts_with(inside);
    (is_whole && (1..=2).contains(&digits.len())).then(|| Name {
        letter,
        number: digits.parse().expect("two digits"),
        hyphen,
        at: (at, end),
    })
}

fn names(line: &str) -> Vec<Name> {
    line.char_indices().filter_map(|(at, _)| name_at(line, at)).collect()
}

/// The letter of a course, `(c)`, behind a schedule's name.
fn course(rest: &str) -> Option<char> {
    let mut chars = rest.strip_prefix(" (")?.chars();
    let letter = chars.next().filter(char::is_ascii_lowercase)?;
    (chars.next() == Some(')')).then_some(letter)
}

/// Schedules that are cited by that word, one or a list of them, with their courses.
fn cited_schedules(line: &str) -> Vec<(Name, Option<char>)> {
    let mut found = Vec::new();
    let words = ["schedule ", "schedules ", "Schedule ", "Schedules "];
    for start in words.iter().flat_map(|word| line.match_indices(word).map(|(at, word)| at + word.len())) {
        let mut at = start;
        while let Some(name) = name_at(line, at).filter(|name| !name.hyphen && SCHEDULES.contains(name.letter)) {
            let course = course(&line[name.at.1..]);
            found.push((name, course));
            at = name.at.1 + course.map_or(0, |_| " (c)".len());
            let next = [", ", " and ", " or "].into_iter().find(|between| line[at..].starts_with(between));
            let Some(between) = next else { break };
            at += between.len();
        }
    }
    found
}

/// Whether the section sign behind this belongs to a paper: directly, or behind other sections of it.
fn has_paper(mut before: &str, papers: &[String]) -> bool {
    loop {
        if papers.iter().any(|paper| before.strip_suffix(' ').is_some_and(|before| before.ends_with(paper.as_str()))) {
            return true;
        }
        let list = [" and ", ", ", " to "].into_iter().find_map(|between| before.strip_suffix(between));
        let section = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase() || c == '.';
        match list.and_then(|list| list.trim_end_matches(section).strip_suffix('§')) {
            Some(earlier) => before = earlier,
            None => return false,
        }
    }
}

/// What is wrong with the names of rules and schedules in a line.
fn wrong_names(line: &str, contract: &Contract) -> Vec<String> {
    let cited = cited_schedules(line);
    let mut wrong = Vec::new();
    for (name, course) in &cited {
        let text = &line[name.at.0..name.at.1];
        match (contract.schedules.get(&name.id()), course) {
            (None, _) => wrong.push(format!("there is no schedule {text}")),
            (Some(courses), Some(letter)) if !courses.contains(letter) => {
                wrong.push(format!("schedule {text} has no course ({letter})"));
            }
            _ => {}
        }
    }
    let is_cited = |name: &Name| cited.iter().any(|(other, _)| other.at == name.at);
    for name in names(line).iter().filter(|name| !is_cited(name)) {
        let (text, letter, number) = (&line[name.at.0..name.at.1], name.letter, name.number);
        // R-0 is what teeth.md calls no rule; findings of fsck have two digits.
        let is_other = name.id() == ('R', 0) || letter == 'F' && text.len() > 2;
        if name.hyphen && RULES.contains(letter) && !is_other && !contract.rules.contains(&name.id()) {
            wrong.push(format!("there is no rule {text}"));
        }
        if !name.hyphen && "RV".contains(letter) {
            wrong.push(format!("{text}: a rule is cited as {letter}-{number}"));
        }
        if !name.hyphen && SCHEDULES.contains(letter) && !is_other {
            wrong.push(format!("{text}: a schedule is cited as \"schedule {text}\", a rule as {letter}-{number}"));
        }
    }
    wrong
}

/// What is wrong with the sections that a line cites, of papers and of documents.
fn wrong_sections(line: &str, contract: &Contract) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, sign) in line.match_indices('§') {
        if !has_paper(&line[..at], &contract.papers) {
            let section: String = line[at..].chars().take_while(|c| !c.is_whitespace()).collect();
            wrong.push(format!("{section} stands behind no paper of design.md, as in \"SwitchFS {sign}5.2\""));
        }
    }
    for (at, word) in line.match_indices("section ").chain(line.match_indices("sections ")) {
        let rest = line[at + word.len()..].trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = line.len() - rest.len() - at - word.len();
        if digits > 0 && rest.starts_with('.') && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            wrong.push(format!("{word}with a number: a section of a paper is cited as \"SwitchFS §5.2\""));
        }
    }
    for (at, _) in line.match_indices(".md, \"") {
        let document = line[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap_or_default();
        let heading = line[at + ".md, \"".len()..].split('"').next().unwrap_or_default();
        let section = (document.to_owned(), heading.to_owned());
        if SECTIONED.contains(&document) && !contract.sections.contains(&section) {
            wrong.push(format!("{document}.md has no section \"{heading}\""));
        }
    }
    let is_in = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let words = line.split(|c| !is_in(c)).map(|word| word.trim_end_matches(['.', '/']));
    wrong.extend(
        words.filter(|word| FORMER.contains(word)).map(|word| format!("{word} is no document of this project")),
    );
    wrong
}

/// What a line of a source says to its readers: its comment. All of a document's line.
fn said<'a>(line: &'a str, extension: &str) -> &'a str {
    let from = match extension {
        "md" => Some(0),
        "rs" => line.find("//"),
        "c" | "h" | "p4" => {
            line.find("//").or(line.find("/*")).or_else(|| line.trim_start().starts_with('*').then_some(0))
        }
        _ => line.find('#'),
    };
    from.map_or("", |from| &line[from..])
}

/// Each wrong citation of a file with its place.
fn complaints(file: &str, text: &str, contract: &Contract) -> Vec<String> {
    let extension = Path::new(file).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if file.ends_with("counterexamples.md") && line.starts_with("### ") {
            continue; // here they are named
        }
        let line = said(line, extension);
        let wrong = wrong_names(line, contract).into_iter().chain(wrong_sections(line, contract));
        all.extend(wrong.map(|wrong| format!("{file}:{}: {wrong}", number + 1)));
    }
    all
}

/// (heading, text below it) of all headings of that level.
fn parts<'a>(text: &'a str, level: &str) -> Vec<(&'a str, &'a str)> {
    let level = format!("\n{level} ");
    text.split(level.as_str())
        .skip(1)
        .map(|part| part.split_once('\n').unwrap_or((part, "")))
        .map(|(heading, below)| (heading, below.split("\n## ").next().expect("split gives at least one")))
        .collect()
}

/// Rules or schedules of a document, with what is said of each.
fn named_parts(text: &str) -> Vec<(Name, &str)> {
    let named = parts(text, "###").into_iter();
    named.filter_map(|(heading, below)| Some((name_at(heading, 0)?, below))).collect()
}

impl Contract {
    fn of(documents: &[Document]) -> Contract {
        let mut contract = Contract::default();
        for document in documents {
            let name = document.path.file_stem().and_then(|name| name.to_str()).expect("a name");
            contract.read(name, &document.text);
        }
        contract
    }

    fn read(&mut self, document: &str, text: &str) {
        let headings = ["##", "###"].iter().flat_map(|level| parts(text, level));
        self.sections.extend(headings.map(|(heading, _)| (document.to_owned(), heading.to_owned())));
        match document {
            "design" => {
                self.rules.extend(named_parts(text).iter().map(|(name, _)| name.id()));
                let papers = parts(text, "##").into_iter().find(|(heading, _)| *heading == "Papers");
                let rows = papers.map_or("", |(_, rows)| rows).lines().filter_map(|row| row.strip_prefix("| "));
                let names = rows.filter_map(|row| row.split(" | ").next()).filter(|name| *name != "cited as");
                self.papers.extend(names.map(str::to_owned));
            }
            "SPEC" => {
                let rules = text.lines().filter_map(|line| line.strip_prefix("* **"));
                self.rules.extend(rules.filter_map(|rule| name_at(rule, 0)).map(|name| name.id()));
            }
            "counterexamples" => {
                for (name, below) in named_parts(text) {
                    let courses = below.match_indices('(').filter_map(|(at, _)| course(&below[at.checked_sub(1)?..]));
                    let first = below.trim_start().starts_with("(a)").then_some('a');
                    self.schedules.insert(name.id(), courses.chain(first).collect());
                }
            }
            _ => {}
        }
    }
}

/// All sources and documents.
fn files() -> Vec<PathBuf> {
    let root = repository();
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = entries(&root);
    while let Some(path) = left.pop() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && (!name.starts_with('.') || name == ".ci") && name != "target" {
            left.extend(entries(&path));
        } else if path.is_file() {
            let extension = path.extension().and_then(|extension| extension.to_str());
            let known = ["rs", "c", "h", "p4", "py", "sh", "toml", "md"];
            let is_script = ["scripts", ".ci"].iter().any(|dir| path.starts_with(root.join(dir))) || name == "justfile";
            found.extend((extension.is_some_and(|e| known.contains(&e)) || is_script).then_some(path));
        }
    }
    found.sort();
    found
}

#[test]
fn every_citation_leads_somewhere() {
    let contract = Contract::of(&documents());
    assert!(contract.rules.len() >= 24 + 30 && contract.schedules.len() >= 33, "what may be cited is not found");
    let mut wrong = Vec::new();
    for path in files() {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let file = path.strip_prefix(repository()).expect("within the repository").display().to_string();
        wrong.extend(complaints(&file, &text, &contract));
    }
    assert!(wrong.is_empty(), "citations that are wrong:\n{}", wrong.join("\n"));
}

/// Whether a text names a test that is there, of the suites, or of a file of sources (`crates/x/src/y.rs::name`).
fn names_a_test(text: &str) -> bool {
    text.split('`').skip(1).step_by(2).any(|word| match (named_test(word), word.split_once(".rs::")) {
        (Some((file, name)), _) => is_test(&file, name),
        (None, Some((file, name))) => is_test(&repository().join(format!("{file}.rs")), name),
        _ => false,
    })
}

/// The items of lists in a text that name no test.
fn bare_items(text: &str) -> Vec<&str> {
    let items = text.split("\n- ").skip(1).map(|item| item.split("\n\n").next().expect("split gives at least one"));
    items.filter(|item| !names_a_test(item)).map(|item| item.lines().next().unwrap_or_default()).collect()
}

#[test]
fn rules_schedules_and_facts_name_their_tests() {
    let read = |name: &str| std::fs::read_to_string(repository().join("docs/internals").join(name)).expect(name);
    for name in ["design.md", "counterexamples.md"] {
        let text = read(name);
        let bare: Vec<(char, u32)> = named_parts(&text)
            .into_iter()
            .filter(|(_, below)| !names_a_test(below))
            .map(|(name, _)| name.id())
            .collect();
        assert!(bare.is_empty(), "{name} names no test of {bare:?}");
    }
    let facts = read("kernel-fuse.md");
    let shown = facts.split("\n## What no test shows").next().expect("split gives at least one");
    assert!(shown.matches("\n- ").count() > 30, "the facts are not found");
    let bare = bare_items(shown);
    assert!(bare.is_empty(), "facts of the kernel without a test:\n{}", bare.join("\n"));
}

fn small_contract() -> Contract {
    let mut contract = Contract::default();
    contract
        .read("design", "\n## Papers\n\n| cited as | title |\n|---|---|\n| SwitchFS | … |\n\n## Data\n\n### R-14: x\n");
    contract.read("SPEC", "* **D-33 (epochs).** x");
    contract.read("counterexamples", "\n### C10: x\n\ny\n\n### C14: x\n\n(a) y (c) z\n\n### F1: x\n");
    contract
}

#[test]
fn right_citations_are_left_alone() {
    for line in [
        "R-14, D-33 and R-14's exception (schedule C10, R-14)",
        "Schedules C10, C14 (c) and F1: a collect",
        "SwitchFS §5.2, as in SwitchFS §7.3.2 and §7.3.3, or SwitchFS §A.3",
        "(design.md, \"Data\"), of P4-16, F21 lost-entry, E2BIG, UTF-8, 2^63, R-n",
    ] {
        assert_eq!(complaints("docs/x.md", line, &small_contract()), [""; 0], "{line}");
    }
    for code in ["let C10 = R14;", "let text = \"DESIGN §4\";"] {
        assert_eq!(complaints("x.rs", code, &small_contract()), [""; 0], "{code}: no comment");
    }
}

#[test]
fn wrong_citations_are_told_with_their_place() {
    for (line, what) in [
        ("(DESIGN §4)", "DESIGN is no document"),
        ("see FUSE.md.", "FUSE.md is no document"),
        ("PROTOCOL-FINDINGS", "PROTOCOL-FINDINGS is no document"),
        ("upholds R14", "R14: a rule is cited as R-14"),
        ("upholds R-99", "there is no rule R-99"),
        ("D-45 of the program", "there is no rule D-45"),
        ("as V-3 says", "there is no rule V-3"),
        ("recalled meanwhile (C10)", "C10: a schedule is cited as \"schedule C10\""),
        ("schedules C10, R-14 and F1", "F1: a schedule"),
        ("schedule C11", "there is no schedule C11"),
        ("schedule C14 (d)", "schedule C14 has no course (d)"),
        ("as §5.2 says", "§5.2 stands behind no paper"),
        ("CephFS §5.2", "§5.2 stands behind no paper"),
        ("SwitchFS, section 6.3", "section with a number"),
        ("(design.md, \"Dates\")", "design.md has no section \"Dates\""),
    ] {
        let told = complaints("crates/x.rs", &format!("fn x() {{}}\n    /// {line}"), &small_contract());
        assert!(told.iter().any(|told| told.starts_with(&format!("crates/x.rs:2: {what}"))), "{line}: {told:?}");
    }
    for (file, line) in
        [("x.py", "x = 1 # C10"), ("x.h", " * C10"), ("x.p4", "/* C10 */"), ("x.md", "C10"), ("scripts/x", "# C10")]
    {
        assert_eq!(complaints(file, line, &small_contract()).len(), 1, "{file}");
    }
}

#[test]
fn what_names_no_test_is_told() {
    assert!(names_a_test("x (`docs/citations::what_names_no_test_is_told`)"));
    assert!(names_a_test("`crates/onpath/tests/docs/citations.rs::what_names_no_test_is_told`"));
    for text in
        ["no word", "`docs/citations::no_such_test`", "`docs/citations::names_a_test`", "`crates/no.rs::x`", "`posix`"]
    {
        assert!(!names_a_test(text), "{text}");
    }
    let items = "\n- fact (`docs/citations::what_names_no_test_is_told`)\n- other fact\n  of two lines\n\nText.";
    assert_eq!(bare_items(items), ["other fact"]);
}
