//! Rows as Parquet, a bounded number of them in memory.

use super::Table;
use super::output::{Output, failure};
use crate::{Failure, Outcome};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use std::io::{self, Write};
use std::sync::Arc;
use tollgate_ledger::ReportRow;

/// Rows in a row group.
const ROWS: usize = 65_536;

pub(super) struct Parquet {
    writer: SerializedFileWriter<Sink>,
    columns: usize,
    rows: Vec<ReportRow>,
}

impl Parquet {
    pub(super) fn new(output: Output, columns: &[&str]) -> Result<Self, Failure> {
        let properties = Arc::new(WriterProperties::builder().build());
        let schema = schema(columns).map_err(|fault| fault.to_string())?;
        let sink = Sink {
            output,
            fault: None,
        };
        let writer = SerializedFileWriter::new(sink, schema, properties);
        Ok(Self {
            writer: writer.map_err(|fault| fault.to_string())?,
            columns: columns.len(),
            rows: Vec::new(),
        })
    }

    /// Writes the rows as a group.
    fn write_group(&mut self) -> Outcome {
        let written = self.try_write_group();
        self.rows.clear();
        written.map_err(|fault| self.writer.inner_mut().failure(&fault))
    }

    fn try_write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for place in 0..self.columns {
            let values = || self.rows.iter().map(|row| row.group.get(place)?.as_deref());
            let present: Vec<_> = values().flatten().map(ByteArray::from).collect();
            let levels: Vec<_> = values().map(|value| i16::from(value.is_some())).collect();
            if let Some(mut column) = group.next_column()? {
                let typed = column.typed::<ByteArrayType>();
                typed.write_batch(&present, Some(&levels), None)?;
                column.close()?;
            }
        }
        for place in 0..ReportRow::SUMS.len().saturating_add(ReportRow::COSTS.len()) {
            let numbers = self.rows.iter().filter_map(|row| {
                let costs = row.costs.iter().map(|cost| cost.nanos());
                row.sums.iter().copied().chain(costs).nth(place)
            });
            // Sums come from signed numbers of the database; a cost has as much room.
            let sums: Vec<_> = numbers
                .map(|it| i64::try_from(it).unwrap_or(i64::MAX))
                .collect();
            if let Some(mut column) = group.next_column()? {
                column.typed::<Int64Type>().write_batch(&sums, None, None)?;
                column.close()?;
            }
        }
        group.close()?;
        Ok(())
    }
}

impl Table for Parquet {
    fn write(&mut self, row: ReportRow) -> Outcome {
        self.rows.push(row);
        match self.rows.len() {
            ROWS => self.write_group(),
            _ => Ok(()),
        }
    }

    fn end(mut self: Box<Self>) -> Outcome {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        if let Err(fault) = self.writer.finish() {
            return Err(self.writer.inner_mut().failure(&fault));
        }
        self.writer.inner_mut().output.end()
    }
}

/// Texts that may be missing, then numbers, then amounts with nine decimal places.
fn schema(columns: &[&str]) -> Result<TypePtr, ParquetError> {
    let text = |name: &&str| {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(LogicalType::String))
            .build()
    };
    let sum = |name: &&str| {
        Type::primitive_type_builder(name, Physical::INT64)
            .with_repetition(Repetition::REQUIRED)
            .build()
    };
    let cost = |name: &&str| {
        Type::primitive_type_builder(name, Physical::INT64)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::decimal(9, 18)))
            .with_precision(18)
            .with_scale(9)
            .build()
    };
    let fields = columns.iter().map(text);
    let fields = fields.chain(ReportRow::SUMS.iter().map(sum));
    let fields = fields.chain(ReportRow::COSTS.iter().map(cost));
    let fields = fields.map(|field| field.map(Arc::new));
    let fields = fields.collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("usage").with_fields(fields);
    schema.build().map(Arc::new)
}

/// The output. It keeps the fault of a write, which the errors of the library hide.
struct Sink {
    output: Output,
    fault: Option<io::Error>,
}

impl Sink {
    fn keep(&mut self, fault: io::Error) -> io::Error {
        let kind = fault.kind();
        self.fault = Some(fault);
        kind.into()
    }

    fn failure(&mut self, fault: &ParquetError) -> Failure {
        match self.fault.take() {
            Some(cause) => failure(&cause),
            None => fault.to_string().into(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes);
        written.map_err(|fault| self.keep(fault))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.output.flush();
        flushed.map_err(|fault| self.keep(fault))
    }
}
