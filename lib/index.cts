// The CommonJS door: both module systems share one copy of every class.
import hindsearch = require("./index.js");
export = hindsearch;
