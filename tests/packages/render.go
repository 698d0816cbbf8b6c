// Renders the Helm chart as `helm template` does, with the functions that it uses, and prints its documents as JSON.
//
//	render CHART VALUES-FILE
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type object = map[string]interface{}

// Files gives templates the files of the chart.
type Files struct{ chart string }

// Get returns the text of a file, or nothing.
func (files Files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(files.chart, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(path string) object {
	text, err := os.ReadFile(path)
	must(err)
	var value object
	must(yaml.Unmarshal(text, &value))
	return value
}

func merge(under, over object) object {
	for key, value := range over {
		inner, isObject := value.(object)
		below, wasObject := under[key].(object)
		if isObject && wasObject {
			under[key] = merge(below, inner)
		} else {
			under[key] = value
		}
	}
	return under
}

func toYaml(value interface{}) string {
	text, err := yaml.Marshal(value)
	must(err)
	return strings.TrimSuffix(string(text), "\n")
}

func fromYaml(text string) object {
	var value object
	must(yaml.Unmarshal([]byte(text), &value))
	return value
}

func main() {
	chart := os.Args[1]
	about := read(filepath.Join(chart, "Chart.yaml"))
	values := merge(read(filepath.Join(chart, "values.yaml")), read(os.Args[2]))
	root := template.New("chart").Option("missingkey=zero").Funcs(sprig.TxtFuncMap())
	root.Funcs(template.FuncMap{
		"toYaml":   toYaml,
		"fromYaml": fromYaml,
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
	})
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	must(err)
	base := "tollgate/templates"
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(err)
		_, err = root.New(base + "/" + filepath.Base(path)).Parse(string(text))
		must(err)
	}
	data := object{
		"Values":   values,
		"Chart":    object{"AppVersion": about["appVersion"]},
		"Release":  object{"Name": "test", "Service": "Helm"},
		"Template": object{"BasePath": base},
		"Files":    Files{chart},
	}
	documents := []object{}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		must(root.ExecuteTemplate(&out, base+"/"+name, data))
		decoder := yaml.NewDecoder(&out)
		for {
			var document object
			err := decoder.Decode(&document)
			if err != nil && err.Error() == "EOF" {
				break
			}
			must(err)
			if document != nil {
				documents = append(documents, document)
			}
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(documents))
}
