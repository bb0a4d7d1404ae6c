#!/usr/bin/env node
console.log("slipway", process.version)
