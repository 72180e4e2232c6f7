//! A table of results: for people and for programs.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// A cell.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Text(String),
    /// A number and how many digits of it are shown after the point.
    Number(f64, usize),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(number as f64, 0)
    }
}

impl Cell {
    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(number, digits) => format!("{number:.digits$}"),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Number(number, _) => json!(number),
        }
    }
}

/// A table with its title.
#[derive(Clone, Debug)]
pub(super) struct Sheet {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Sheet {
    pub(super) fn new(title: String, header: &[&str]) -> Sheet {
        Sheet { title, header: header.iter().map(|&name| name.to_owned()).collect(), rows: vec![] }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.header.len(), "a row is as wide as its table");
        self.rows.push(cells);
    }

    /// As Markdown.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN).set_header(self.header.clone());
        for (place, column) in table.column_iter_mut().enumerate() {
            if self.rows.iter().any(|row| matches!(row[place], Cell::Number(..))) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.rows.iter().for_each(|row| _ = table.add_row(row.iter().map(Cell::shown)));
        format!("{}\n\n{table}\n", self.title)
    }

    /// As a list of objects.
    pub(super) fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| -> Value {
            self.header.iter().zip(row).map(|(name, cell)| (name.clone(), cell.json())).collect()
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(object).collect::<Vec<_>>() })
    }
}
