// Includes a model that is not there, as an example does before its model was exported.
#include "model.h"

void setup() {
  Serial.begin(115200);
}

void loop() {}
